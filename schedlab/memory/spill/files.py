"""Image files in one directory, always through its descriptor: never a link followed, never a foreign name touched."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress

from schedlab.memory.spill.errors import CorruptImage, ImageVanished, ShortWrite, SpillUnavailable, typed

TEMPORARY = ".tmp"
OWN_NAME = re.compile(r"schedlab-image-\d+\.safetensors(\.tmp)?")
PRIVATE_FILE = 0o600
# A link or a pipe in the place of an image must neither be followed nor block the open.
READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def image_name(image_id: int) -> str:
    """The only names, with TEMPORARY behind them or not, that are ever written or deleted."""
    return f"schedlab-image-{image_id}.safetensors"


def write_image(directory_fd: int, name: str, parts: Iterable[bytes | memoryview], size_bytes: int) -> None:
    """All of the image under its name, or nothing.

    The sync is what makes the file system say that it has no room before the caller gives up the only other copy.
    Raises DiskFull, ShortWrite, SpillUnavailable.
    """
    temporary = name + TEMPORARY
    with typed(f"create {temporary}"):
        fd = os.open(temporary, WRITE_FLAGS, PRIVATE_FILE, dir_fd=directory_fd)
    made = [temporary]
    try:
        with typed(f"write {name}"):
            _fill(fd, parts, size_bytes)
            if _is_taken(directory_fd, name):
                raise SpillUnavailable(f"cannot write {name}: something else has that name")
            made.append(name)
            os.rename(temporary, name, src_dir_fd=directory_fd, dst_dir_fd=directory_fd)
            os.fsync(directory_fd)
    except BaseException:
        for each in made:
            remove_own(directory_fd, each)
        raise


def read_image(directory_fd: int, name: str, size_bytes: int) -> bytearray:
    """The content of a file of exactly that size. Raises ImageVanished, CorruptImage, SpillUnavailable."""
    try:
        fd = os.open(name, READ_FLAGS, dir_fd=directory_fd)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO):
            raise ImageVanished(f"{name} is gone: {error.strerror}") from error
        raise SpillUnavailable(f"cannot open {name}: {error.strerror}") from error
    try:
        return _read_all(fd, name, size_bytes)
    except OSError as error:
        raise CorruptImage(f"{name} cannot be read: {error.strerror}") from error
    finally:
        os.close(fd)


def remove_own(directory_fd: int, name: str) -> None:
    """Delete a regular file; anything else of that name is not ours and stays.

    Silent when it cannot: whoever gives up an image has nothing else to do, and the next start tries again.
    """
    with suppress(OSError):
        if stat.S_ISREG(os.stat(name, dir_fd=directory_fd, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=directory_fd)


def remove_all_own(directory_fd: int) -> None:
    """Delete every image, finished or not. Only for the holder of the directory's lock."""
    with typed("list the spill directory"):
        names = sorted(os.listdir(directory_fd))
    for name in names:
        if OWN_NAME.fullmatch(name):
            remove_own(directory_fd, name)


def _fill(fd: int, parts: Iterable[bytes | memoryview], size_bytes: int) -> None:
    try:
        for part in parts:
            rest = memoryview(part)
            while rest:
                written_bytes = os.write(fd, rest)
                if written_bytes == 0:
                    raise ShortWrite(f"{rest.nbytes} of {size_bytes} bytes were not taken")
                rest = rest[written_bytes:]
        os.fsync(fd)
        held_bytes = os.fstat(fd).st_size
        if held_bytes != size_bytes:
            raise ShortWrite(f"the file has {held_bytes} of {size_bytes} bytes after the write")
    finally:
        os.close(fd)


def _read_all(fd: int, name: str, size_bytes: int) -> bytearray:
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        raise ImageVanished(f"{name} is gone: what has its name is no regular file")
    if found.st_size != size_bytes:
        raise CorruptImage(f"{name} has {found.st_size} bytes, not the {size_bytes} written")
    content = bytearray(size_bytes)
    rest = memoryview(content)
    while rest:
        read_bytes = os.readv(fd, [rest])
        if read_bytes == 0:
            raise CorruptImage(f"{name} ends {rest.nbytes} bytes early")
        rest = rest[read_bytes:]
    return content


def _is_taken(directory_fd: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=directory_fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
