"""SpillStore: images in two tiers, each within its byte budget."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

from schedlab.errors import UsageError
from schedlab.memory.spill.codec import decode, lay_out, verify
from schedlab.memory.spill.directory import SpillDirectory
from schedlab.memory.spill.errors import ImageVanished, SpillUnavailable, TierFull
from schedlab.memory.spill.image import ImageHandle, ImageHeader, TensorBytes
from schedlab.memory.swap import Tier


@dataclass(slots=True)
class _Held:
    """A live image. *content* is the file's bytes in the host tier, None in the disk tier."""

    image: ImageHandle
    tier: Tier
    content: memoryview | None
    moving: bool = False


class SpillStore:
    """Holds bytes; who gives up memory and what a failure means is the caller's to decide.

    *host_bytes* and *disk_bytes* bound the tiers, counted as the sizes of safetensors files with their headers; 0 turns
    a tier off. *directory* is needed for the disk tier only, and private to one store. Image ids are never reused.

    Safe for a copier thread beside the scheduler's: the lock guards accounting only and is never held over a copy, a
    checksum or a system call on a file. An image may be dropped, and the store closed, in the middle of another
    thread's operation: that one then raises ImageVanished or SpillUnavailable and leaves nothing.
    """

    def __init__(self, host_bytes: int, disk_bytes: int, directory: Path | None = None) -> None:
        for tier, budget_bytes in ((Tier.HOST, host_bytes), (Tier.DISK, disk_bytes)):
            if budget_bytes < 0:
                raise UsageError(f"the {tier} tier's budget must be 0 bytes (off) or more, got {budget_bytes}")
        if disk_bytes and directory is None:
            raise UsageError(f"a disk tier of {disk_bytes} bytes needs a directory")
        self._budget_bytes = {Tier.HOST: host_bytes, Tier.DISK: disk_bytes}
        self._used_bytes = {Tier.HOST: 0, Tier.DISK: 0}
        self._lock = threading.Lock()
        self._live: dict[int, _Held] = {}
        self._next_id = 0
        self._in_flight = 0
        self._closed = False
        self._directory = SpillDirectory(directory) if disk_bytes and directory is not None else None

    def put(self, tier: Tier, header: ImageHeader, tensors: Mapping[str, TensorBytes]) -> ImageHandle:
        """Keep a copy of the tensors. On any error nothing remains: no file, no budget used.

        Raises TierFull, DiskFull, ShortWrite, SpillUnavailable, and UsageError for tensors that contradict themselves.
        """
        with self._operation():
            layout = lay_out(replace(header, image_id=self._new_id()), tensors)
            with self._reserved(tier, layout.size_bytes):
                image, parts = layout.seal()
                held = _Held(image, tier, self._write(tier, image, parts))
                with self._lock:
                    if not self._closed:
                        self._live[image.image_id] = held
                        return image
                # Leaving the directory, which waits for this operation's end, removes the file.
                raise SpillUnavailable(f"the store was closed while image {image.image_id} was written")

    def get(self, image: ImageHandle) -> tuple[ImageHeader, dict[str, TensorBytes]]:
        """Header and tensors, equal bit by bit to what was put; the tensors are read-only views. The image stays.

        Raises CorruptImage, ImageVanished, SpillUnavailable; then too it stays, and is the caller's to drop.
        """
        with self._operation():
            return decode(self._verified(self._find(image)))

    def move(self, image: ImageHandle, tier: Tier) -> None:
        """To another tier, under the same handle. On any error it stays where it was.

        For that time it counts in both tiers. Raises what `get` and `put` raise.
        """
        with self._operation(), self._only_mover(image) as held:
            if held.tier is tier:
                return
            with self._reserved(tier, image.size_bytes):
                old = self._relocate(held, tier)
            self._erase(old)
            self._release(old.tier, image.size_bytes)

    def drop(self, image: ImageHandle) -> None:
        """Give up an image and its bytes; nothing if that was done before. Raises nothing."""
        with self._lock:
            held = self._live.get(image.image_id)
            if held is None or held.image != image:
                return
            del self._live[image.image_id]
            self._in_flight += 1
        self._erase(held)
        self._release(held.tier, image.size_bytes)
        self._end()

    def usage(self, tier: Tier) -> int:
        """Bytes of the tier's budget that are taken, by images kept or just being written."""
        with self._lock:
            return self._used_bytes[tier]

    def room(self, tier: Tier) -> int:
        """Bytes of the tier's budget that are left."""
        with self._lock:
            return self._budget_bytes[tier] - self._used_bytes[tier]

    def tier(self, image: ImageHandle) -> Tier:
        """Where the image is now. Raises ImageVanished."""
        return self._find(image).tier

    def close(self) -> None:
        """Drop everything and leave the directory. With an operation under way, its end does the latter."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._in_flight += 1
            for held in self._live.values():
                self._used_bytes[held.tier] -= held.image.size_bytes
            self._live.clear()
        self._end()

    def __enter__(self) -> SpillStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _operation(self) -> Iterator[None]:
        with self._lock:
            if self._closed:
                raise SpillUnavailable("the spill store is closed")
            self._in_flight += 1
        try:
            yield
        except MemoryError as error:
            raise SpillUnavailable("no host memory for the image") from error
        finally:
            self._end()

    def _end(self) -> None:
        """The last operation of a closed store leaves the directory, since until then its descriptor is in use."""
        with self._lock:
            self._in_flight -= 1
            is_last = self._closed and self._in_flight == 0
        if is_last and self._directory is not None:
            self._directory.close()

    def _new_id(self) -> int:
        with self._lock:
            self._next_id += 1
            return self._next_id - 1

    def _find(self, image: ImageHandle) -> _Held:
        with self._lock:
            held = self._live.get(image.image_id)
        if held is None or held.image != image:
            raise ImageVanished(f"image {image.image_id} of {image.request_id} was dropped")
        return held

    @contextmanager
    def _reserved(self, tier: Tier, size_bytes: int) -> Iterator[None]:
        """Budget taken before the bytes are; given back on any error."""
        with self._lock:
            room_bytes = self._budget_bytes[tier] - self._used_bytes[tier]
            if size_bytes > room_bytes:
                raise TierFull(tier, size_bytes, room_bytes)
            self._used_bytes[tier] += size_bytes
        try:
            yield
        except BaseException:
            self._release(tier, size_bytes)
            raise

    def _release(self, tier: Tier, size_bytes: int) -> None:
        with self._lock:
            self._used_bytes[tier] -= size_bytes

    @contextmanager
    def _only_mover(self, image: ImageHandle) -> Iterator[_Held]:
        held = self._find(image)
        with self._lock:
            if held.moving:
                raise SpillUnavailable(f"image {image.image_id} is being moved by another thread")
            held.moving = True
        try:
            yield held
        finally:
            held.moving = False

    def _relocate(self, held: _Held, tier: Tier) -> _Held:
        """Write it there, then say so; returns what it was before."""
        image = held.image
        old = replace(held)
        content = self._verified(held)
        new = _Held(image, tier, content if tier is Tier.HOST else self._write(tier, image, [content]))
        with self._lock:
            if self._live.get(image.image_id) is held:
                held.tier, held.content = new.tier, new.content
                return old
        self._erase(new)
        raise ImageVanished(f"image {image.image_id} was dropped while it was moved")

    def _write(self, tier: Tier, image: ImageHandle, parts: Iterable[bytes | memoryview]) -> memoryview | None:
        if tier is Tier.HOST:
            return memoryview(b"".join(parts))
        assert self._directory is not None
        self._directory.write(image, parts)
        return None

    def _verified(self, held: _Held) -> memoryview:
        content = self._read(held)
        verify(content, held.image)
        return content

    def _read(self, held: _Held) -> memoryview:
        content = held.content
        if content is not None:
            return content
        assert self._directory is not None
        try:
            return memoryview(self._directory.read(held.image))
        except ImageVanished:
            # It may have been moved to the host tier since.
            content = held.content
            if content is None:
                raise
            return content

    def _erase(self, held: _Held) -> None:
        if held.tier is Tier.DISK and self._directory is not None:
            self._directory.remove(held.image)
