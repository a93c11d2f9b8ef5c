"""Why an image could not be kept or read back. Each leaves the caller a way on: another tier, or a recompute."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from schedlab.errors import SchedlabError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class SpillError(SchedlabError):
    """Base of what a SpillStore raises for a fault that is not the caller's."""


class TierFull(SpillError):
    """The tier's byte budget has no room for the image; a budget of 0 is a tier that is off."""

    def __init__(self, tier: str, needed_bytes: int, room_bytes: int) -> None:
        super().__init__(f"{needed_bytes} bytes needed in the {tier} tier, {room_bytes} left of its budget")
        self.tier = tier
        self.needed_bytes = needed_bytes
        self.room_bytes = room_bytes


class DiskFull(SpillError):
    """The file system refused more bytes (no space, quota, or file size limit), within the budget or not."""


class ShortWrite(SpillError):
    """The file system took fewer bytes than it was given and named no error."""


class CorruptImage(SpillError):
    """What was read is not the image that was put: too short, too long, damaged, unreadable, or another image."""


class ImageVanished(SpillError):
    """The image is no longer there: dropped, deleted, or its name now belongs to something that is no regular file."""


class SpillUnavailable(SpillError):
    """The store cannot be used: closed, no permission, read-only, its directory gone, or no host memory."""


@contextmanager
def typed(action: str) -> Iterator[None]:
    """Turn an OSError of *action* into DiskFull or SpillUnavailable."""
    try:
        yield
    except OSError as error:
        kind = DiskFull if error.errno in FULL else SpillUnavailable
        raise kind(f"cannot {action}: {error.strerror}") from error
