"""A private directory, held by one process at a time.

The lock is the kernel's (flock), so it ends with its holder however that dies; the pid in it is for messages only.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path

from schedlab.errors import UsageError
from schedlab.memory.spill.errors import SpillUnavailable, typed
from schedlab.memory.spill.files import PRIVATE_FILE, image_name, read_image, remove_all_own, remove_own, write_image
from schedlab.memory.spill.image import ImageHandle

LOCK_NAME = "schedlab-spill.lock"
PRIVATE_DIRECTORY = 0o700
DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# Each holder that leaves at the very moment costs one attempt.
ATTEMPTS = 8


class SpillDirectory:
    """Taking it removes the images of dead processes; `close` removes ours, and the directory if that leaves it empty.

    Raises UsageError where the path is at fault (no parent, a link, not private, held by a live process) and
    SpillUnavailable where the file system is (no permission, read-only, no locks).
    """

    __slots__ = ("_fd", "_lock_fd", "path")

    def __init__(self, path: Path) -> None:
        self.path = path
        with typed(f"use {path} as spill directory"):
            self._fd, self._lock_fd = _take(path)
        try:
            remove_all_own(self._fd)
            with typed(f"write {path / LOCK_NAME}"):
                os.ftruncate(self._lock_fd, 0)
                os.pwrite(self._lock_fd, f"{os.getpid()}\n".encode(), 0)
        except BaseException:
            self.close()
            raise

    def write(self, image: ImageHandle, parts: Iterable[bytes | memoryview]) -> None:
        """Durable under its name when this returns; on any error nothing of it remains."""
        write_image(self._fd, image_name(image.image_id), parts, image.size_bytes)

    def read(self, image: ImageHandle) -> bytearray:
        """The file's content, of the right size and not yet verified."""
        return read_image(self._fd, image_name(image.image_id), image.size_bytes)

    def remove(self, image: ImageHandle) -> None:
        """Delete the image's file, if it is still one."""
        remove_own(self._fd, image_name(image.image_id))

    def close(self) -> None:
        """Leave nothing of ours behind. The lock is released last but one, when no image is left to be read."""
        with suppress(SpillUnavailable):
            remove_all_own(self._fd)
        remove_own(self._fd, LOCK_NAME)
        with suppress(OSError):
            if os.path.samestat(os.fstat(self._fd), self.path.lstat()):
                self.path.rmdir()
        os.close(self._lock_fd)
        os.close(self._fd)


def _take(path: Path) -> tuple[int, int]:
    """Descriptors of the directory and of its lock, which is held."""
    for _ in range(ATTEMPTS):
        with suppress(FileNotFoundError), ExitStack() as undo:
            fd = _open_directory(path)
            undo.callback(os.close, fd)
            lock_fd = os.open(LOCK_NAME, LOCK_FLAGS, PRIVATE_FILE, dir_fd=fd)
            undo.callback(os.close, lock_fd)
            _lock(path, lock_fd)
            # A holder that left meanwhile deleted the file: a lock on it would exclude nobody.
            if os.path.samestat(os.fstat(lock_fd), os.stat(LOCK_NAME, dir_fd=fd, follow_symlinks=False)):
                undo.pop_all()
                return fd, lock_fd
    raise UsageError(f"{path}: other processes take and leave this spill directory all the time: give another")


def _open_directory(path: Path) -> int:
    try:
        path.mkdir(PRIVATE_DIRECTORY)
    except FileExistsError:
        _check_private(path)
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such parent directory for the spill files: create it") from error
    return os.open(path, DIRECTORY_FLAGS)


def _check_private(path: Path) -> None:
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise UsageError(f"{path} is not a directory (a link is not followed): give another spill directory")
    if found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise UsageError(
            f"{path} is not private (mode {stat.S_IMODE(found.st_mode):04o}, owner {found.st_uid}): images hold users' "
            f"text; give a directory that does not exist yet, or one of your own with mode 0700"
        )


def _lock(path: Path, lock_fd: int) -> None:
    if not stat.S_ISREG(os.fstat(lock_fd).st_mode):
        raise UsageError(f"{path / LOCK_NAME} is not a regular file: remove it or give another spill directory")
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        pid = os.pread(lock_fd, 20, 0).decode(errors="replace").strip()
        raise UsageError(
            f"{path} is held by {f'process {pid}' if pid else 'another process'}: "
            f"end it or give each process its own spill directory"
        ) from error
