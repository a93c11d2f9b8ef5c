"""A copier thread beside the scheduler's: drops and closes in the middle of an operation, and no wait for a disk."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path

import pytest

from schedlab.memory.spill import ImageHandle, ImageVanished, SpillError, SpillStore, SpillUnavailable, Tier
from tests.unit.spill_helpers import assert_nothing_left, bits, header, images_in, kv, meanwhile

MIB = 1 << 20


@pytest.mark.parametrize("call", ["open", "write", "fsync", "rename"])
def test_the_scheduler_is_answered_while_an_image_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    with SpillStore(MIB, MIB, tmp_path / "spill") as store:
        other = store.put(Tier.HOST, header(), kv())
        seen = []

        def schedule() -> None:
            store.drop(other)
            seen.append(store.usage(Tier.DISK))

        def ask() -> None:
            thread = threading.Thread(target=schedule)
            thread.start()
            thread.join(timeout=60)

        meanwhile(monkeypatch, os, call, ask)
        image = store.put(Tier.DISK, header(), kv())
        assert seen == [image.size_bytes]
        assert store.usage(Tier.HOST) == 0


@pytest.mark.parametrize(
    ("source", "target", "call"), [(Tier.HOST, Tier.DISK, "write"), (Tier.DISK, Tier.HOST, "readv")]
)
@pytest.mark.parametrize("end", ["drop", "close"])
def test_an_image_given_up_while_it_is_moved_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: Tier, target: Tier, call: str, end: str
) -> None:
    store = SpillStore(MIB, MIB, tmp_path / "spill")
    image = store.put(source, header(), kv())
    meanwhile(monkeypatch, os, call, store.close if end == "close" else lambda: store.drop(image))
    with pytest.raises(ImageVanished, match="while it was moved"):
        store.move(image, target)
    assert [store.usage(tier) for tier in Tier] == [0, 0]
    if end == "drop":
        assert_nothing_left(store, tmp_path / "spill")
        store.close()
    assert not (tmp_path / "spill").exists()


@pytest.mark.parametrize("call", ["write", "rename"])
def test_a_store_closed_while_an_image_is_written_leaves_when_that_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    store = SpillStore(0, MIB, tmp_path / "spill")
    store.put(Tier.DISK, header(), kv())
    meanwhile(monkeypatch, os, call, store.close)
    with pytest.raises(SpillUnavailable, match="closed while"):
        store.put(Tier.DISK, header(), kv())
    assert store.usage(Tier.DISK) == 0
    assert not (tmp_path / "spill").exists()


def test_what_a_closed_store_refuses_neither_keeps_it_in_its_directory_nor_sends_it_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An image is being written when the store is closed; others are refused before that has ended."""
    directory = tmp_path / "spill"
    store = SpillStore(MIB, MIB, directory)
    image = store.put(Tier.DISK, header(), kv())

    def close() -> None:
        store.close()
        for refused in (
            lambda: store.get(image),
            lambda: store.put(Tier.HOST, header(), kv()),
            lambda: store.move(image, Tier.HOST),
        ):
            with pytest.raises(SpillUnavailable, match="store is closed"):
                refused()
        assert directory.exists(), "the image is still being written"

    meanwhile(monkeypatch, os, "write", close)
    with pytest.raises(SpillUnavailable, match="closed while"):
        store.put(Tier.DISK, header(), kv())
    assert not directory.exists()


def test_an_image_moved_to_the_host_while_it_is_read_is_read_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SpillStore(MIB, MIB, tmp_path / "spill") as store:
        image = store.put(Tier.DISK, header(), kv())
        meanwhile(monkeypatch, os, "open", lambda: store.move(image, Tier.HOST))
        assert bits(store.get(image)[1]) == bits(kv())


def test_a_second_mover_of_the_same_image_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SpillStore(MIB, MIB, tmp_path / "spill") as store:
        image = store.put(Tier.HOST, header(), kv())

        def again() -> None:
            with pytest.raises(SpillUnavailable, match="being moved"):
                store.move(image, Tier.DISK)

        meanwhile(monkeypatch, os, "write", again)
        store.move(image, Tier.DISK)
        assert [store.usage(tier) for tier in Tier] == [0, image.size_bytes]


def test_two_threads_at_random_leave_nothing_and_read_nothing_wrong(tmp_path: Path) -> None:
    """One puts, moves and reads; the other drops. Every read is right or a typed refusal."""
    directory = tmp_path / "spill"
    images: list[tuple[int, ImageHandle]] = []
    faults: list[BaseException] = []
    reads: list[int] = []

    def copy_images() -> None:
        chance = random.Random(1)
        for seed in range(150):
            try:
                images.append((seed, store.put(chance.choice(list(Tier)), header(), kv(2000, seed))))
                known, image = chance.choice(images[-4:])
                store.move(image, chance.choice(list(Tier)))
                assert bits(store.get(image)[1]) == bits(kv(2000, known))
                reads.append(known)
            except SpillError:
                continue
            except BaseException as error:
                faults.append(error)

    with SpillStore(20_000, 20_000, directory) as store:
        copier = threading.Thread(target=copy_images)
        copier.start()
        chance = random.Random(2)
        while copier.is_alive():
            if images:
                store.drop(chance.choice(images[-6:])[1])
            assert all(0 <= store.room(tier) <= 20_000 for tier in Tier)
            copier.join(timeout=0.001)
        assert faults == []
        assert reads
        assert len(images_in(directory)) == sum(_is_on_disk(store, image) for _, image in images)
        for _, image in images:
            store.drop(image)
        assert_nothing_left(store, directory)


def _is_on_disk(store: SpillStore, image: ImageHandle) -> bool:
    try:
        return store.tier(image) is Tier.DISK
    except ImageVanished:
        return False
