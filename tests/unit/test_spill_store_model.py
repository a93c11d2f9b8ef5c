"""The store of images against a dictionary, in drawn sequences of moves; and its refusals, to the word."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedlab.memory.spill import (
    CorruptImage,
    ImageHandle,
    ImageVanished,
    SpillStore,
    SpillUnavailable,
    TensorBytes,
    Tier,
    TierFull,
)
from tests.unit.spill_helpers import bits, file_of, header, images_in, kv, meanwhile

TIERS = st.sampled_from(list(Tier))
SIZES = (0, 400, 2000)


class Kept(NamedTuple):
    """What the store should have."""

    tier: Tier
    num_bytes: int
    seed: int


@contextmanager
def opened(host_bytes: int, disk_bytes: int) -> Iterator[tuple[SpillStore, Path]]:
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder) / "spill"
        with SpillStore(host_bytes, disk_bytes, at) as store:
            yield store, at
        assert not at.exists()
        for tier in Tier:
            assert store.usage(tier) == 0


class Model:
    """A store and what it should hold."""

    def __init__(self, store: SpillStore, at: Path, budgets: dict[Tier, int]) -> None:
        self.store, self.at, self.budgets = store, at, budgets
        self.kept: dict[ImageHandle, Kept] = {}
        self.gone: list[ImageHandle] = []

    def room(self, tier: Tier) -> int:
        return self.budgets[tier] - sum(image.size_bytes for image, one in self.kept.items() if one.tier is tier)

    def full(self, error: TierFull, tier: Tier, size_bytes: int) -> None:
        """A refusal tells what was needed and what is left."""
        assert (error.tier, error.needed_bytes, error.room_bytes) == (tier, size_bytes, self.room(tier))
        told = f"{size_bytes} bytes needed in the {tier} tier, {self.room(tier)} left of its budget"
        assert str(error) == told and size_bytes > self.room(tier)

    def put(self, tier: Tier, num_bytes: int, seed: int) -> None:
        try:
            image = self.store.put(tier, header(f"r{seed}"), kv(num_bytes, seed))
        except TierFull as error:
            self.full(error, tier, error.needed_bytes)
            return
        assert image.size_bytes <= self.room(tier) and image.request_id == f"r{seed}"
        assert image.image_id > max([-1, *(one.image_id for one in [*self.kept, *self.gone])])
        self.kept[image] = Kept(tier, num_bytes, seed)

    def move(self, image: ImageHandle, tier: Tier) -> None:
        kept = self.kept[image]
        try:
            self.store.move(image, tier)
        except TierFull as error:
            assert tier is not kept.tier
            self.full(error, tier, image.size_bytes)
            return
        assert tier is kept.tier or image.size_bytes <= self.room(tier)
        self.kept[image] = kept._replace(tier=tier)

    def drop(self, image: ImageHandle) -> None:
        for wrong in (replace(image, checksum="0" * 64), replace(image, image_id=image.image_id + 1000)):
            self.store.drop(wrong)
            assert self.store.tier(image) is self.kept[image].tier, "another's handle drops nothing"
            self.refuse(wrong)
        self.store.drop(image)
        del self.kept[image]
        self.gone.append(image)

    def refuse(self, image: ImageHandle) -> None:
        told = f"^image {image.image_id} of {image.request_id} was dropped$"
        for use in (self.store.get, self.store.tier, lambda one: self.store.move(one, Tier.HOST)):
            with pytest.raises(ImageVanished, match=told):
                use(image)

    def check(self) -> None:
        for tier, budget_bytes in self.budgets.items():
            assert self.store.room(tier) == self.room(tier) >= 0
            assert self.store.usage(tier) == budget_bytes - self.room(tier)
        for image, kept in self.kept.items():
            assert self.store.tier(image) is kept.tier
            found, tensors = self.store.get(image)
            assert found == replace(header(f"r{kept.seed}"), image_id=image.image_id)
            assert bits(tensors) == bits(kv(kept.num_bytes, kept.seed))
        for image in self.gone[-2:]:
            self.store.drop(image)
            self.refuse(image)
        if self.budgets[Tier.DISK]:
            on_disk = [image for image, kept in self.kept.items() if kept.tier is Tier.DISK]
            assert images_in(self.at) == sorted(file_of(self.at, image).name for image in on_disk)
            assert all(file_of(self.at, image).stat().st_size == image.size_bytes for image in on_disk)


@given(
    host_bytes=st.sampled_from((0, 3000, 6000)),
    disk_bytes=st.sampled_from((0, 3000, 9000)),
    moves=st.lists(st.tuples(st.sampled_from("ppmmd"), TIERS, st.integers(0, 99)), min_size=4, max_size=14),
)
@settings(max_examples=30, derandomize=True, deadline=None, database=None)
def test_the_store_holds_what_a_dictionary_would(
    host_bytes: int, disk_bytes: int, moves: list[tuple[str, Tier, int]]
) -> None:
    with opened(host_bytes, disk_bytes) as (store, at):
        model = Model(store, at, {Tier.HOST: host_bytes, Tier.DISK: disk_bytes})
        for name, tier, number in moves:
            images = list(model.kept)
            if name == "p":
                model.put(tier, SIZES[number % 3], number)
            elif images and name == "m":
                model.move(images[number % len(images)], tier)
            elif images:
                model.drop(images[number % len(images)])
            model.check()


@pytest.mark.parametrize("tier", list(Tier))
def test_what_just_fits_is_taken_and_a_byte_more_is_not(tmp_path: Path, tier: Tier) -> None:
    with SpillStore(1 << 20, 0) as store:
        size = store.put(Tier.HOST, header(), kv()).size_bytes
    for number, (budget, fits) in enumerate(((size, True), (size - 1, False))):
        with SpillStore(budget, budget, tmp_path / str(number)) as store:
            if fits:
                assert store.tier(store.put(tier, header(), kv())) is tier
            else:
                with pytest.raises(TierFull, match=f"^{size} bytes needed in the {tier} tier, {size - 1} left"):
                    store.put(tier, header(), kv())


def test_a_closed_store_refuses_all_but_drops_and_questions(tmp_path: Path) -> None:
    store = SpillStore(1 << 20, 1 << 20, tmp_path / "spill")
    images = [store.put(tier, header(), kv()) for tier in Tier]
    store.close()
    store.close()
    assert not (tmp_path / "spill").exists()
    uses: list[Any] = [
        lambda: store.put(Tier.HOST, header(), kv()),
        *(lambda image=image: store.get(image) for image in images),
        *(lambda image=image: store.move(image, Tier.HOST) for image in images),
    ]
    for use in uses:
        with pytest.raises(SpillUnavailable, match=r"^the spill store is closed$"):
            use()
    for image in images:
        store.drop(image)
        with pytest.raises(ImageVanished, match=f"^image {image.image_id} of r7 was dropped$"):
            store.tier(image)
    assert [(store.usage(tier), store.room(tier)) for tier in Tier] == [(0, 1 << 20)] * 2


def test_memory_that_runs_out_is_told_as_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object) -> None:
        raise MemoryError

    with SpillStore(1 << 20, 1 << 20, tmp_path / "spill") as store:
        image = store.put(Tier.DISK, header(), kv())
        with monkeypatch.context() as patch:
            patch.setattr("os.readv", exhausted)
            patch.setattr("os.write", exhausted)
            for use in (
                lambda: store.get(image),
                lambda: store.move(image, Tier.HOST),
                lambda: store.put(Tier.DISK, header(), kv()),
            ):
                with pytest.raises(SpillUnavailable, match=r"^no host memory for the image$") as error:
                    use()
                assert isinstance(error.value.__cause__, MemoryError)
        assert [store.usage(tier) for tier in Tier] == [0, image.size_bytes]
        store.move(image, Tier.HOST)
        assert bits(store.get(image)[1]) == bits(kv())


def test_an_image_can_be_moved_again_after_a_move_that_failed(tmp_path: Path) -> None:
    with SpillStore(1 << 20, 1 << 20, tmp_path / "spill") as store:
        image = store.put(Tier.DISK, header(), kv())
        path = file_of(tmp_path / "spill", image)
        content = path.read_bytes()
        path.write_bytes(bytes(len(content)))
        for _ in range(2):
            with pytest.raises(CorruptImage):
                store.move(image, Tier.HOST)
            assert store.tier(image) is Tier.DISK and store.usage(Tier.HOST) == 0
        path.write_bytes(content)
        store.move(image, Tier.HOST)
        assert store.tier(image) is Tier.HOST and images_in(tmp_path / "spill") == []


def test_what_happens_to_an_image_in_the_middle_of_a_move_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    with SpillStore(1 << 20, 1 << 20, tmp_path / "spill") as store:
        image = store.put(Tier.HOST, header(), kv())
        seen: list[tuple[int, int, Tier]] = []

        def look() -> None:
            seen.append((store.usage(Tier.HOST), store.usage(Tier.DISK), store.tier(image)))
            with pytest.raises(SpillUnavailable, match=f"^image {image.image_id} is being moved by another thread$"):
                store.move(image, Tier.DISK)
            assert bits(store.get(image)[1]) == bits(kv())

        meanwhile(monkeypatch, os, "write", look)
        store.move(image, Tier.DISK)
        assert seen == [(image.size_bytes, image.size_bytes, Tier.HOST)], "it counts in both, and is where it was"
        meanwhile(monkeypatch, os, "readv", lambda: store.drop(image))
        with pytest.raises(ImageVanished, match=f"^image {image.image_id} was dropped while it was moved$"):
            store.move(image, Tier.HOST)
        assert [store.usage(tier) for tier in Tier] == [0, 0]


def test_an_image_of_a_store_that_was_closed_meanwhile_is_told_by_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    store = SpillStore(0, 1 << 20, tmp_path / "spill")
    store.put(Tier.DISK, header(), kv())
    meanwhile(monkeypatch, os, "write", store.close)
    with pytest.raises(SpillUnavailable, match=r"^the store was closed while image 1 was written$"):
        store.put(Tier.DISK, header(), kv())
    assert store.usage(Tier.DISK) == 0 and not (tmp_path / "spill").exists()


def test_tensors_in_the_host_tier_are_copies(tmp_path: Path) -> None:
    data = bytearray(b"kv" * 8)
    with SpillStore(1 << 20, 0) as store:
        image = store.put(Tier.HOST, header(), {"k": TensorBytes("U8", (16,), data)})
        data[:] = bytes(16)
        assert bytes(store.get(image)[1]["k"].data) == b"kv" * 8
