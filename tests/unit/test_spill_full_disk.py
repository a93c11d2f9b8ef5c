"""A file system that is full, short, read-only or forbidden: nothing of a failed put remains."""

from __future__ import annotations

import errno
import os
import resource
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schedlab.memory.spill import DiskFull, ShortWrite, SpillError, SpillStore, SpillUnavailable, Tier, TierFull
from tests.unit.spill_helpers import (
    assert_nothing_left,
    bits,
    file_of,
    header,
    images_in,
    kv,
    small_disk,
    without_write_permission,
)

MIB = 1 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """The spill directory to be, on a tmpfs of 1 MiB."""
    with small_disk(tmp_path / "disk") as at:
        yield at / "spill"


def test_a_disk_that_fills_up_refuses_the_image_and_keeps_the_others(disk: Path) -> None:
    with SpillStore(4 * MIB, 16 * MIB, disk) as store:
        kept = []
        with pytest.raises(DiskFull, match="No space left"):
            for seed in range(16):
                kept.append(store.put(Tier.DISK, header(), kv(200_000, seed)))
        assert len(kept) >= 4
        assert images_in(disk) == sorted(file_of(disk, image).name for image in kept)
        assert store.usage(Tier.DISK) == sum(image.size_bytes for image in kept)
        for seed, image in enumerate(kept):
            assert bits(store.get(image)[1]) == bits(kv(200_000, seed))

        host = store.put(Tier.HOST, header(), kv(200_000, 99))
        with pytest.raises(DiskFull):
            store.move(host, Tier.DISK)
        assert store.tier(host) is Tier.HOST
        assert bits(store.get(host)[1]) == bits(kv(200_000, 99))

        store.drop(kept.pop(0))
        store.move(host, Tier.DISK)
        assert bits(store.get(host)[1]) == bits(kv(200_000, 99))
        assert store.usage(Tier.HOST) == 0


def test_an_image_larger_than_the_disk_leaves_no_byte_of_itself(disk: Path) -> None:
    with SpillStore(0, 16 * MIB, disk) as store:
        free_before = os.statvfs(disk).f_bfree
        for _ in range(3):
            with pytest.raises(DiskFull):
                store.put(Tier.DISK, header(), kv(2 * MIB))
            assert_nothing_left(store, disk)
            assert os.statvfs(disk).f_bfree == free_before
        store.drop(store.put(Tier.DISK, header(), kv(MIB // 2)))


def test_no_inode_left_is_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "size=1m,nr_inodes=4") as at, SpillStore(0, MIB, at / "spill") as store:
        kept = store.put(Tier.DISK, header(), kv())
        with pytest.raises(DiskFull):
            store.put(Tier.DISK, header(), kv())
        assert images_in(at / "spill") == [file_of(at / "spill", kept).name]
        store.drop(kept)
        assert_nothing_left(store, at / "spill")


def test_stale_images_make_room_before_anything_is_written(disk: Path) -> None:
    disk.mkdir(0o700)
    with (disk / "schedlab-image-4.safetensors.tmp").open("wb") as stale, pytest.raises(OSError, match="No space"):
        stale.write(bytes(2 * MIB))
    with SpillStore(0, MIB, disk) as store:
        store.put(Tier.DISK, header(), kv(MIB // 2))


def test_a_read_only_disk_makes_the_store_unavailable(disk: Path) -> None:
    disk.mkdir(0o700)
    subprocess.run(["mount", "-o", "remount,ro", str(disk.parent)], check=True)
    with pytest.raises(SpillUnavailable, match=f"cannot use {disk} as spill directory: Read-only file system"):
        SpillStore(0, MIB, disk)
    with pytest.raises(SpillUnavailable, match="Read-only file system"):
        SpillStore(0, MIB, disk.parent / "another")


def test_a_file_size_limit_is_a_full_disk(tmp_path: Path) -> None:
    with SpillStore(0, MIB, tmp_path / "spill") as store:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
        try:
            with pytest.raises(DiskFull, match="File too large"):
                store.put(Tier.DISK, header(), kv(50_000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert_nothing_left(store, tmp_path / "spill")


def test_permission_lost_on_the_way_is_typed_and_found_again(tmp_path: Path) -> None:
    directory = tmp_path / "spill"
    with SpillStore(MIB, MIB, directory) as store:
        image = store.put(Tier.HOST, header(), kv())
        with without_write_permission(directory):
            with pytest.raises(SpillUnavailable, match="Permission denied"):
                store.put(Tier.DISK, header(), kv())
            with pytest.raises(SpillUnavailable, match="Permission denied"):
                store.move(image, Tier.DISK)
        assert images_in(directory) == []
        assert store.usage(Tier.DISK) == 0
        store.move(image, Tier.DISK)
        assert bits(store.get(image)[1]) == bits(kv())


def test_writes_in_small_pieces_are_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_write, real_readv = os.write, os.readv
    monkeypatch.setattr(os, "write", lambda fd, data: real_write(fd, data[:1000]))
    monkeypatch.setattr(os, "readv", lambda fd, views: real_readv(fd, [views[0][:700]]))
    with SpillStore(0, MIB, tmp_path / "spill") as store:
        image = store.put(Tier.DISK, header(), kv())
        assert bits(store.get(image)[1]) == bits(kv())


@pytest.mark.parametrize("taken", [0, 10], ids=["takes nothing", "claims what it did not take"])
def test_a_short_write_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: int) -> None:
    real_write = os.write

    def short(fd: int, data: memoryview) -> int:
        real_write(fd, data[:taken])
        return len(data) if taken else 0

    with SpillStore(0, MIB, tmp_path / "spill") as store:
        monkeypatch.setattr(os, "write", short)
        with pytest.raises(ShortWrite, match="bytes"):
            store.put(Tier.DISK, header(), kv())
        assert_nothing_left(store, tmp_path / "spill")


@pytest.mark.parametrize("call", ["write", "fsync", "rename", "fstat", "stat", "open"])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EROFS])
def test_whatever_call_fails_nothing_remains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    """Each call fails at its first use, then at its second, and so on until the put gets through."""
    real = getattr(os, call)
    with SpillStore(0, MIB, tmp_path / "spill") as store:
        for successes in range(10):
            left = successes

            def failing(*args: object, **kwargs: object) -> object:
                nonlocal left
                left -= 1
                if left == -1:
                    raise OSError(number, os.strerror(number))
                return real(*args, **kwargs)

            with monkeypatch.context() as patch:
                patch.setattr(os, call, failing)
                try:
                    image = store.put(Tier.DISK, header(), kv())
                except SpillError as error:
                    assert isinstance(error, DiskFull if number == errno.ENOSPC else SpillUnavailable)
                    patch.undo()
                    assert_nothing_left(store, tmp_path / "spill")
                    continue
            assert successes >= 1
            assert bits(store.get(image)[1]) == bits(kv())
            return
        pytest.fail("the put never got through")


def test_the_file_is_synced_before_it_has_its_name_and_the_directory_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    real_fsync, real_rename = os.fsync, os.rename

    def fsync(fd: int) -> None:
        calls.append("directory" if stat.S_ISDIR(os.fstat(fd).st_mode) else f"{os.fstat(fd).st_size} bytes")
        real_fsync(fd)

    def rename(*args: Any, **kwargs: Any) -> None:
        calls.append("rename")
        real_rename(*args, **kwargs)

    with SpillStore(0, MIB, tmp_path / "spill") as store:
        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(os, "rename", rename)
        image = store.put(Tier.DISK, header(), kv())
        assert calls == [f"{image.size_bytes} bytes", "rename", "directory"]


def test_an_interrupt_in_mid_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(fd: int) -> None:
        raise KeyboardInterrupt

    with SpillStore(0, MIB, tmp_path / "spill") as store:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", interrupted)
            with pytest.raises(KeyboardInterrupt):
                store.put(Tier.DISK, header(), kv())
        assert_nothing_left(store, tmp_path / "spill")


def test_a_full_tier_says_what_was_needed_and_a_tier_that_is_off_is_full(tmp_path: Path) -> None:
    with SpillStore(6000, 0, tmp_path / "never made") as store:
        kept = store.put(Tier.HOST, header(), kv())
        with pytest.raises(TierFull) as full:
            store.put(Tier.HOST, header(), kv())
        assert (full.value.tier, full.value.needed_bytes) == (Tier.HOST, kept.size_bytes)
        assert full.value.room_bytes == store.room(Tier.HOST) == 6000 - kept.size_bytes
        with pytest.raises(TierFull, match="disk tier, 0 left"):
            store.put(Tier.DISK, header(), kv())
        with pytest.raises(TierFull, match="disk tier, 0 left"):
            store.move(kept, Tier.DISK)
        assert store.usage(Tier.HOST) == kept.size_bytes
    assert not (tmp_path / "never made").exists()
