"""Budgets as a state machine: usage is the sum of the live images, never over budget, and so is the disk itself."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from schedlab.memory.spill import ImageHandle, ImageVanished, SpillStore, Tier, TierFull
from tests.unit.spill_helpers import bits, file_of, header, images_in, kv

HOST_BYTES, DISK_BYTES = 9_000, 14_000
TIERS = st.sampled_from(list(Tier))


class Spilling(RuleBasedStateMachine):
    images = Bundle("images")
    dropped = Bundle("dropped")

    def __init__(self) -> None:
        super().__init__()
        self.place = tempfile.TemporaryDirectory()
        self.directory = Path(self.place.name) / "spill"
        self.store = SpillStore(HOST_BYTES, DISK_BYTES, self.directory)
        self.live: dict[ImageHandle, tuple[Tier, int, int]] = {}
        self.ids: list[int] = []

    @rule(target=images, tier=TIERS, num_bytes=st.sampled_from([0, 400, 2000, 6000, 20_000]), seed=st.integers(0, 9))
    def put(self, tier: Tier, num_bytes: int, seed: int) -> object:
        room_bytes = self.store.room(tier)
        try:
            image = self.store.put(tier, header(), kv(num_bytes, seed))
        except TierFull as full:
            assert full.needed_bytes > full.room_bytes == room_bytes
            return multiple()
        assert image.size_bytes <= room_bytes
        self.live[image] = (tier, num_bytes, seed)
        self.ids.append(image.image_id)
        return image

    @rule(image=images, tier=TIERS)
    def move(self, image: ImageHandle, tier: Tier) -> None:
        old, num_bytes, seed = self.live[image]
        room_bytes = self.store.room(tier)
        try:
            self.store.move(image, tier)
        except TierFull:
            assert image.size_bytes > room_bytes
            tier = old
        self.live[image] = (tier, num_bytes, seed)

    @rule(image=images)
    def get(self, image: ImageHandle) -> None:
        tier, num_bytes, seed = self.live[image]
        assert self.store.tier(image) is tier
        assert bits(self.store.get(image)[1]) == bits(kv(num_bytes, seed))

    @rule(target=dropped, image=consumes(images))
    def drop(self, image: ImageHandle) -> ImageHandle:
        self.store.drop(image)
        del self.live[image]
        return image

    @rule(image=dropped)
    def drop_again(self, image: ImageHandle) -> None:
        self.store.drop(image)
        try:
            self.store.get(image)
        except ImageVanished:
            return
        raise AssertionError("a dropped image was read")

    @invariant()
    def usage_is_the_sum_of_the_live_images_and_within_budget(self) -> None:
        for tier, budget_bytes in ((Tier.HOST, HOST_BYTES), (Tier.DISK, DISK_BYTES)):
            used_bytes = sum(image.size_bytes for image, (place, _, _) in self.live.items() if place is tier)
            assert self.store.usage(tier) == used_bytes <= budget_bytes
            assert self.store.room(tier) == budget_bytes - used_bytes

    @invariant()
    def the_directory_holds_the_live_images_and_nothing_else(self) -> None:
        on_disk = [image for image, (tier, _, _) in self.live.items() if tier is Tier.DISK]
        assert images_in(self.directory) == sorted(file_of(self.directory, image).name for image in on_disk)
        assert all(file_of(self.directory, image).stat().st_size == image.size_bytes for image in on_disk)

    @invariant()
    def no_id_was_given_twice(self) -> None:
        assert len(self.ids) == len(set(self.ids))

    def teardown(self) -> None:
        self.store.close()
        assert not self.directory.exists()
        self.place.cleanup()


Spilling.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestSpilling = Spilling.TestCase
