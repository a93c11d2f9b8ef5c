"""Taking and leaving a spill directory: what is refused and how, what is removed, and that no descriptor stays open."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from schedlab.errors import SchedlabError, UsageError
from schedlab.memory.spill import CorruptImage, DiskFull, ImageVanished, SpillStore, SpillUnavailable, Tier
from schedlab.memory.spill.errors import typed
from tests.unit.spill_helpers import file_of, header, images_in, kv, meanwhile

MIB = 1 << 20


def open_descriptors() -> list[str]:
    """What this process has open: numbers and where they lead."""
    found = []
    for each in Path("/proc/self/fd").iterdir():
        try:
            found.append(f"{each.name} {each.readlink()}")
        except FileNotFoundError:
            continue
    return sorted(found)


@contextmanager
def nothing_stays_open() -> Iterator[None]:
    before = open_descriptors()
    yield
    assert open_descriptors() == before


def refused(kind: type[SchedlabError], at: Path, told: str) -> None:
    """A store cannot be made there; it says that, and leaves nothing open."""
    with nothing_stays_open(), pytest.raises(SchedlabError) as error:
        SpillStore(0, MIB, at)
    assert type(error.value) is kind
    assert str(error.value) == told


@pytest.mark.parametrize("mode", [0o701, 0o702, 0o704, 0o710, 0o720, 0o740, 0o755, 0o777])
def test_a_directory_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    at = tmp_path / "spill"
    at.mkdir()
    at.chmod(mode)
    refused(
        UsageError,
        at,
        f"{at} is not private (mode {mode:04o}, owner {os.geteuid()}): images hold users' text; give a directory that "
        "does not exist yet, or one of your own with mode 0700",
    )
    assert list(at.iterdir()) == []


def test_a_directory_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at, owner = tmp_path / "spill", os.geteuid()
    at.mkdir(0o700)
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    refused(
        UsageError,
        at,
        f"{at} is not private (mode 0700, owner {owner}): images hold users' text; give a directory that does not "
        "exist yet, or one of your own with mode 0700",
    )


def to_file(at: Path) -> None:
    at.touch(0o600)


def to_link(at: Path) -> None:
    (at.parent / "own").mkdir(0o700)
    at.symlink_to(at.parent / "own")


def to_dangling_link(at: Path) -> None:
    at.symlink_to(at.parent / "nowhere")


@pytest.mark.parametrize("make", [to_file, to_link, to_dangling_link, os.mkfifo])
def test_what_is_no_directory_of_its_own_name_is_refused(tmp_path: Path, make: Callable[[Path], None]) -> None:
    at = tmp_path / "spill"
    make(at)
    told = f"{at} is not a directory (a link is not followed): give another spill directory"
    refused(UsageError, at, told)


def test_a_directory_without_a_parent_is_refused(tmp_path: Path) -> None:
    at = tmp_path / "no" / "spill"
    refused(UsageError, at, f"{at}: no such parent directory for the spill files: create it")
    assert not at.parent.exists()


def test_a_lock_that_is_no_file_is_refused(tmp_path: Path) -> None:
    at = tmp_path / "spill"
    at.mkdir(0o700)
    lock = at / "schedlab-spill.lock"
    os.mkfifo(lock)
    refused(UsageError, at, f"{lock} is not a regular file: remove it or give another spill directory")
    lock.unlink()
    lock.symlink_to(tmp_path / "victim")
    told = f"cannot use {at} as spill directory: {os.strerror(errno.ELOOP)}"
    refused(SpillUnavailable, at, told)
    assert not (tmp_path / "victim").exists()
    lock.unlink()
    lock.mkdir()
    refused(SpillUnavailable, at, f"cannot use {at} as spill directory: {os.strerror(errno.EISDIR)}")
    assert lock.is_dir()


def test_who_holds_a_directory_is_named_by_its_number_and_left_alone(tmp_path: Path) -> None:
    at = tmp_path / "spill"
    with nothing_stays_open(), SpillStore(0, MIB, at) as store:
        lock = at / "schedlab-spill.lock"
        assert lock.read_text() == f"{os.getpid()}\n" and lock.stat().st_mode & 0o777 == 0o600
        image = store.put(Tier.DISK, header(), kv())
        for text, holder in (
            (None, f"process {os.getpid()}"),
            (b"77\n", "process 77"),
            (b"", "another process"),
            (b"\xff\n", "process \ufffd"),
        ):
            if text is not None:
                lock.write_bytes(text)
            refused(UsageError, at, f"{at} is held by {holder}: end it or give each process its own spill directory")
        assert images_in(at) == [file_of(at, image).name]
    assert not at.exists()


def test_a_lock_keeps_nothing_of_a_longer_one_before(tmp_path: Path) -> None:
    at = tmp_path / "spill"
    at.mkdir(0o700)
    (at / "schedlab-spill.lock").write_text("1234567890" * 20)
    with SpillStore(0, MIB, at):
        assert (at / "schedlab-spill.lock").read_text() == f"{os.getpid()}\n"


FOREIGN = (
    "notes.txt",
    "image-1.safetensors",
    "schedlab-image-.safetensors",
    "schedlab-image-x.safetensors",
    "schedlab-image-1.safetensors.tmp.tmp",
    "schedlab-image-1.safetensorsX",
    "schedlab-image-1.safetensors.bak",
    "Xschedlab-image-1.safetensors",
    "schedlab-image-1Xsafetensors",
    "schedlab-image--1.safetensors",
)
OWN = ("schedlab-image-1.safetensors", "schedlab-image-1.safetensors.tmp", "schedlab-image-12345.safetensors")


def test_images_of_the_dead_are_removed_at_the_start_and_own_ones_at_the_end_and_nothing_else(tmp_path: Path) -> None:
    at = tmp_path / "spill"
    at.mkdir(0o700)
    for name in (*FOREIGN, *OWN):
        (at / name).write_text(name)
    (at / "schedlab-image-7.safetensors").mkdir()
    (at / "schedlab-image-8.safetensors").symlink_to(tmp_path)
    stay = sorted([*FOREIGN, "schedlab-image-7.safetensors", "schedlab-image-8.safetensors"])
    with nothing_stays_open(), SpillStore(0, MIB, at) as store:
        assert images_in(at) == stay
        store.put(Tier.DISK, header(), kv())
        assert len(images_in(at)) == len(stay) + 1
    assert sorted(each.name for each in at.iterdir()) == stay, "the lock is gone too"
    assert all((at / name).read_text() == name for name in FOREIGN)
    SpillStore(0, MIB, at).close()


def test_a_directory_is_taken_where_there_is_a_disk_tier_and_made_private(tmp_path: Path) -> None:
    at = tmp_path / "spill"
    with SpillStore(MIB, 0, at):
        assert not at.exists()
    with SpillStore(0, 1, at):
        assert at.stat().st_mode & 0o777 == 0o700
    assert not at.exists()
    for host_bytes, disk_bytes, told in (
        (-1, 0, "the host tier's budget must be 0 bytes (off) or more, got -1"),
        (0, -2, "the disk tier's budget must be 0 bytes (off) or more, got -2"),
        (0, 9, "a disk tier of 9 bytes needs a directory"),
    ):
        with pytest.raises(UsageError) as error:
            SpillStore(host_bytes, disk_bytes)
        assert str(error.value) == told
    SpillStore(0, 0).close()


def test_a_lock_that_cannot_be_had_leaves_nothing_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where others take and leave it at the very moment a few times more, and where there are no locks at all."""
    at, attempts = tmp_path / "spill", []

    def leaving(*_: object) -> None:
        attempts.append(1)
        raise FileNotFoundError

    monkeypatch.setattr(fcntl, "flock", leaving)
    told = f"{at}: other processes take and leave this spill directory all the time: give another"
    refused(UsageError, at, told)
    assert len(attempts) == 8
    monkeypatch.setattr(fcntl, "flock", failing(errno.ENOLCK))
    refused(SpillUnavailable, at, f"cannot use {at} as spill directory: {os.strerror(errno.ENOLCK)}")


def test_a_lock_in_whose_place_a_link_to_it_has_come_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = tmp_path / "spill"
    at.mkdir(0o700)

    def replace() -> None:
        (at / "schedlab-spill.lock").rename(tmp_path / "moved")
        (at / "schedlab-spill.lock").symlink_to(tmp_path / "moved")

    meanwhile(monkeypatch, fcntl, "flock", replace)
    refused(SpillUnavailable, at, f"cannot use {at} as spill directory: {os.strerror(errno.ELOOP)}")


def test_a_directory_is_held_from_before_anything_is_removed_until_all_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = tmp_path / "spill"
    at.mkdir(0o700)
    (at / OWN[0]).touch()
    real_unlink, removed = os.unlink, []

    def unlink(name: str, **rest: Any) -> None:
        with pytest.raises(UsageError, match=f"^{at} is held by "):
            SpillStore(0, MIB, at)
        removed.append(name)
        real_unlink(name, **rest)

    monkeypatch.setattr(os, "unlink", unlink)
    store = SpillStore(0, MIB, at)
    store.put(Tier.DISK, header(), kv())
    store.close()
    assert removed == [OWN[0], "schedlab-image-0.safetensors", "schedlab-spill.lock"]
    assert not at.exists()


@pytest.mark.parametrize(("call", "use"), [("readv", "get"), ("readv", "move"), ("stat", "drop"), ("write", "put")])
def test_a_directory_is_left_when_the_last_operation_in_it_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, use: str
) -> None:
    at = tmp_path / "spill"
    store = SpillStore(MIB, MIB, at)
    image, other = store.put(Tier.DISK, header(), kv()), store.put(Tier.HOST, header(), kv())
    uses: dict[str, Callable[[], object]] = {
        "get": lambda: store.get(image),
        "move": lambda: store.move(image, Tier.HOST),
        "drop": lambda: store.drop(image),
        "put": lambda: store.put(Tier.DISK, header(), kv()),
    }
    seen = []

    def close() -> None:
        store.get(other)
        store.close()
        seen.append(at.exists())

    meanwhile(monkeypatch, os, call, close)
    with suppress(SchedlabError):
        uses[use]()
    assert seen == [True] and not at.exists()


def failing(number: int) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize("call", ["ftruncate", "pwrite", "listdir"])
def test_a_directory_that_cannot_be_written_is_left_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    at = tmp_path / "spill"
    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing(errno.EIO))
        what = "list the spill directory" if call == "listdir" else f"write {at / 'schedlab-spill.lock'}"
        with pytest.raises(SpillUnavailable) as error:
            SpillStore(0, MIB, at)
        assert str(error.value) == f"cannot {what}: {os.strerror(errno.EIO)}"
    assert not at.exists()
    with nothing_stays_open():
        SpillStore(0, MIB, at).close()


@pytest.mark.parametrize(
    ("call", "number", "kind", "told"),
    [
        ("open", errno.ENOENT, ImageVanished, "{name} is gone: {error}"),
        ("open", errno.ELOOP, ImageVanished, "{name} is gone: {error}"),
        ("open", errno.ENXIO, ImageVanished, "{name} is gone: {error}"),
        ("open", errno.EACCES, SpillUnavailable, "cannot open {name}: {error}"),
        ("open", errno.EMFILE, SpillUnavailable, "cannot open {name}: {error}"),
        ("readv", errno.EIO, CorruptImage, "{name} cannot be read: {error}"),
        ("fstat", errno.EIO, CorruptImage, "{name} cannot be read: {error}"),
    ],
)
def test_a_read_that_fails_says_what_it_means_for_the_image_and_leaves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int, kind: type[SchedlabError], told: str
) -> None:
    with SpillStore(MIB, MIB, tmp_path / "spill") as store:
        image = store.put(Tier.DISK, header(), kv())
        name = file_of(tmp_path / "spill", image).name
        for use in (lambda: store.get(image), lambda: store.move(image, Tier.HOST)):
            with nothing_stays_open(), monkeypatch.context() as patch, pytest.raises(SchedlabError) as error:
                patch.setattr(os, call, failing(number))
                use()
            assert type(error.value) is kind
            assert str(error.value) == told.format(name=name, error=os.strerror(number))
        assert store.tier(image) is Tier.DISK and store.get(image)
        assert [store.usage(tier) for tier in Tier] == [0, image.size_bytes]


def test_reads_and_writes_leave_no_descriptor_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SpillStore(MIB, MIB, tmp_path / "spill") as store, nothing_stays_open():
        image = store.put(Tier.DISK, header(), kv())
        store.get(image)
        file_of(tmp_path / "spill", image).write_bytes(b"short")
        with pytest.raises(CorruptImage, match=f"has 5 bytes, not the {image.size_bytes} written$"):
            store.get(image)
        with monkeypatch.context() as patch, pytest.raises(DiskFull):
            patch.setattr(os, "write", failing(errno.ENOSPC))
            store.put(Tier.DISK, header(), kv())


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, DiskFull),
        (errno.EDQUOT, DiskFull),
        (errno.EFBIG, DiskFull),
        *((number, SpillUnavailable) for number in (errno.EIO, errno.EROFS, errno.EACCES, errno.ENOENT)),
    ],
)
def test_an_error_of_the_system_is_typed_and_told_with_what_was_done(number: int, kind: type[SchedlabError]) -> None:
    with pytest.raises(SchedlabError) as error, typed("do that"):
        raise OSError(number, os.strerror(number))
    assert type(error.value) is kind and str(error.value) == f"cannot do that: {os.strerror(number)}"
    assert isinstance(error.value.__cause__, OSError)
    with pytest.raises(ValueError, match="another"), typed("do that"):
        raise ValueError("another")
