"""Files truncated, flipped, deleted or replaced under the store: a typed error, never wrong bytes, never a hang."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from schedlab.errors import SchedlabError
from schedlab.memory.spill import (
    CorruptImage,
    ImageHandle,
    ImageVanished,
    SpillError,
    SpillStore,
    SpillUnavailable,
    Tier,
)
from tests.unit.spill_helpers import assert_nothing_left, bits, file_of, header, images_in, kv

MIB = 1 << 20


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "spill"


@pytest.fixture
def store(directory: Path) -> Iterator[SpillStore]:
    with SpillStore(MIB, MIB, directory) as store:
        yield store


@pytest.fixture
def image(store: SpillStore) -> ImageHandle:
    return store.put(Tier.DISK, header(), kv(1024))


def test_every_single_flipped_bit_is_noticed(store: SpillStore, directory: Path, image: ImageHandle) -> None:
    path = file_of(directory, image)
    with path.open("r+b", buffering=0) as file:
        for at, byte in enumerate(path.read_bytes()):
            os.pwrite(file.fileno(), bytes([byte ^ 1 << at % 8]), at)
            with pytest.raises(CorruptImage, match="damaged"):
                store.get(image)
            os.pwrite(file.fileno(), bytes([byte]), at)
    assert bits(store.get(image)[1]) == bits(kv(1024))


@pytest.mark.parametrize("kept_bytes", [0, 1, 8, 100, -1])
def test_a_truncated_file_is_corrupt(store: SpillStore, directory: Path, image: ImageHandle, kept_bytes: int) -> None:
    os.truncate(file_of(directory, image), kept_bytes % image.size_bytes)
    with pytest.raises(CorruptImage, match=f"not the {image.size_bytes} written"):
        store.get(image)


def test_a_longer_file_is_corrupt_however_long(store: SpillStore, directory: Path, image: ImageHandle) -> None:
    os.truncate(file_of(directory, image), 1 << 40)
    with pytest.raises(CorruptImage, match="bytes, not the"):
        store.get(image)


def test_a_file_that_shrinks_while_it_is_read_is_corrupt(
    store: SpillStore, directory: Path, image: ImageHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_fstat = os.fstat

    def shrink_after(fd: int) -> os.stat_result:
        found = real_fstat(fd)
        os.truncate(file_of(directory, image), 100)
        return found

    monkeypatch.setattr(os, "fstat", shrink_after)
    with pytest.raises(CorruptImage, match=r"ends \d+ bytes early"):
        store.get(image)


def test_another_sound_image_under_its_name_is_corrupt(store: SpillStore, directory: Path, image: ImageHandle) -> None:
    other = store.put(Tier.DISK, header("r8"), kv(1024, seed=1))
    assert other.size_bytes == image.size_bytes
    shutil.copyfile(file_of(directory, other), file_of(directory, image))
    with pytest.raises(CorruptImage, match="in place of image 0 of r7 lies another image"):
        store.get(image)


def test_a_corrupt_image_does_not_spread_by_a_move(store: SpillStore, directory: Path, image: ImageHandle) -> None:
    path = file_of(directory, image)
    path.write_bytes(bytes(image.size_bytes))
    with pytest.raises(CorruptImage):
        store.move(image, Tier.HOST)
    assert store.tier(image) is Tier.DISK
    assert [store.usage(tier) for tier in Tier] == [0, image.size_bytes]
    store.drop(image)
    assert_nothing_left(store, directory)


def to_link(path: Path) -> None:
    (path.parent.parent / "elsewhere").write_bytes(path.read_bytes())
    path.unlink()
    path.symlink_to(path.parent.parent / "elsewhere")


def to_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def to_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("replace", [to_link, to_directory, to_pipe], ids=["link", "directory", "pipe"])
def test_what_is_no_regular_file_is_neither_read_nor_deleted(
    store: SpillStore, directory: Path, image: ImageHandle, replace: Callable[[Path], None]
) -> None:
    path = file_of(directory, image)
    replace(path)
    with pytest.raises(ImageVanished, match="is gone"):
        store.get(image)
    with pytest.raises(ImageVanished):
        store.move(image, Tier.HOST)
    store.drop(image)
    store.close()
    assert images_in(directory) == [path.name]
    if path.is_symlink():
        assert (directory.parent / "elsewhere").stat().st_size == image.size_bytes


def test_a_deleted_file_is_vanished_and_its_budget_comes_back_with_the_drop(
    store: SpillStore, directory: Path, image: ImageHandle
) -> None:
    file_of(directory, image).unlink()
    with pytest.raises(ImageVanished, match="is gone"):
        store.get(image)
    assert store.usage(Tier.DISK) == image.size_bytes
    store.drop(image)
    store.drop(image)
    assert_nothing_left(store, directory)


def test_a_dropped_image_is_vanished_and_foreign_handles_name_nothing(
    store: SpillStore, tmp_path: Path, image: ImageHandle
) -> None:
    with SpillStore(MIB, 0) as other:
        foreign = other.put(Tier.HOST, header("r8"), kv())
    assert foreign.image_id == image.image_id
    store.drop(foreign)
    with pytest.raises(ImageVanished):
        store.get(foreign)
    assert bits(store.get(image)[1]) == bits(kv(1024))
    store.drop(image)
    for use in (store.get, store.tier, lambda gone: store.move(gone, Tier.HOST)):
        with pytest.raises(ImageVanished, match="image 0 of r7 was dropped"):
            use(image)


def test_a_directory_deleted_under_the_store_leaves_the_host_tier(
    store: SpillStore, directory: Path, image: ImageHandle
) -> None:
    shutil.rmtree(directory)
    with pytest.raises(SpillUnavailable, match="cannot create"):
        store.put(Tier.DISK, header(), kv())
    assert store.usage(Tier.DISK) == image.size_bytes
    kept = store.put(Tier.HOST, header(), kv())
    with pytest.raises(SpillUnavailable):
        store.move(kept, Tier.DISK)
    assert bits(store.get(kept)[1]) == bits(kv())


def test_a_directory_that_took_the_place_of_ours_is_left_alone(directory: Path, tmp_path: Path) -> None:
    store = SpillStore(0, MIB, directory)
    directory.rename(tmp_path / "moved")
    directory.mkdir()
    image = store.put(Tier.DISK, header(), kv())
    assert file_of(tmp_path / "moved", image).exists()
    store.close()
    assert directory.exists()
    assert list((tmp_path / "moved").iterdir()) == []


def test_a_name_that_something_else_has_is_not_overwritten(store: SpillStore, directory: Path) -> None:
    (directory / "schedlab-image-0.safetensors").symlink_to("/nowhere")
    (directory / "schedlab-image-1.safetensors.tmp").symlink_to("/nowhere")
    (directory / "schedlab-image-2.safetensors").mkdir()
    before = images_in(directory)
    for _ in before:
        with pytest.raises(SpillUnavailable):
            store.put(Tier.DISK, header(), kv())
        assert images_in(directory) == before
        assert store.usage(Tier.DISK) == 0
    image = store.put(Tier.DISK, header(), kv())
    assert bits(store.get(image)[1]) == bits(kv())


def test_every_fault_is_a_spill_error_and_so_one_of_the_project_s() -> None:
    for kind in (CorruptImage, ImageVanished, SpillUnavailable):
        assert issubclass(kind, SpillError)
    assert issubclass(SpillError, SchedlabError)
