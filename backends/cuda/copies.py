"""Copies between device, host and disk, each link on its own thread, and the images of the sequences that they move."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from queue import SimpleQueue
from time import perf_counter_ns

import torch
from torch import Tensor

from backends.cuda.operations import Operations
from schedlab.device import CopyKind, CopyOp, Ticket
from schedlab.errors import SchedlabError
from schedlab.memory.spill import ImageHandle, ImageHeader, SpillStore, TensorBytes, Tier

# Assumed of a link that has carried nothing yet: half of what PCIe 4.0 x8 carries.
_FIRST_BYTES_PER_NS = 8.0
_LONGEST_WAIT_S = 600.0


class CopyTicket:
    """A copy, and what became of it; `error` may be read once `ended` is set."""

    __slots__ = ("ended", "error", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.ended = threading.Event()
        self.error = ""


@dataclass(slots=True, eq=False)
class Image:
    """The blocks of a swapped-out sequence: `staged` on the host, in the store as `spilled`, or both."""

    staged: Tensor | None = None
    spilled: ImageHandle | None = None
    is_dropped: bool = False


class Images:
    """Images by request id; a dropped one loses its bytes, even those that a copy is still making."""

    def __init__(self, store: SpillStore | None) -> None:
        self.store = store
        self._lock = threading.Lock()
        self._live: dict[int, Image] = {}

    def begin(self, request_id: int) -> Image:
        """A new image takes the place of any older one."""
        self.drop(request_id)
        image = self._live[request_id] = Image()
        return image

    def get(self, request_id: int) -> Image:
        """The request's image; one without content, if there is none."""
        return self._live.get(request_id, Image())

    def drop(self, request_id: int) -> None:
        image = self._live.pop(request_id, None)
        if image is not None:
            self.discard(image)

    def discard(self, image: Image) -> None:
        """Its bytes are of no use any more; whoever still finds it finds it empty."""
        with self._lock:
            image.is_dropped = True
            image.staged = None
        self._erase(image)

    def keep(self, image: Image, spilled: ImageHandle) -> None:
        """The image is in the store, and no longer staged."""
        with self._lock:
            image.spilled, image.staged = spilled, None
        if image.is_dropped:
            self._erase(image)

    def _erase(self, image: Image) -> None:
        if image.spilled is not None and self.store is not None:
            self.store.drop(image.spilled)


_Queue = SimpleQueue[tuple[CopyTicket, CopyOp, Image] | None]


class CopyEngine:
    """One thread for each link, so that they overlap; on a link, first come, first served.

    Attributes:
        on_done: told of each copy that has ended, on its link's thread.
    """

    def __init__(self, pool: Tensor, operations: Operations, store: SpillStore | None) -> None:
        self.on_done: list[Callable[[Ticket, str], None]] = []
        self.images = Images(store)
        self._pool, self._operations, self._block_size = pool, operations, pool.shape[3]
        self._num_copies = 0
        self._queues: dict[CopyKind, _Queue] = {}
        self._threads: list[threading.Thread] = []
        self._bytes_per_ns = dict.fromkeys(CopyKind, _FIRST_BYTES_PER_NS)
        self._open_bytes = dict.fromkeys(CopyKind, 0)
        self._moves = {
            CopyKind.DEVICE_TO_HOST: self._save,
            CopyKind.HOST_TO_DISK: self._write,
            CopyKind.DISK_TO_HOST: self._stage,
            CopyKind.HOST_TO_DEVICE: self._restore,
        }

    def copy(self, op: CopyOp) -> CopyTicket:
        """Begin a copy. What it reads or writes on the device was finished by the steps before it."""
        self._num_copies += 1
        ticket = CopyTicket(self._num_copies)
        is_new = op.kind is CopyKind.DEVICE_TO_HOST
        image = self.images.begin(op.request_id) if is_new else self.images.get(op.request_id)
        self._open_bytes[op.kind] += op.num_bytes
        self._queue(op.kind).put((ticket, op, image))
        return ticket

    def copy_ns(self, kind: CopyKind, num_bytes: int) -> int:
        """By the rate of the last copy, behind those that have the link."""
        return int((self._open_bytes[kind] + num_bytes) / self._bytes_per_ns[kind])

    def wait(self, tickets: tuple[Ticket, ...]) -> None:
        """Block until these copies have ended, well or not."""
        for ticket in tickets:
            assert isinstance(ticket, CopyTicket)
            if not ticket.ended.wait(_LONGEST_WAIT_S):
                raise SchedlabError(f"copy {ticket.number} has not ended within {_LONGEST_WAIT_S:.0f} s")

    def close(self) -> None:
        """Block until the threads have ended, which do so when all that was begun has."""
        for queue in self._queues.values():
            queue.put(None)
        for thread in self._threads:
            thread.join(_LONGEST_WAIT_S)

    def _queue(self, kind: CopyKind) -> _Queue:
        if kind not in self._queues:
            queue = self._queues[kind] = SimpleQueue()
            thread = threading.Thread(target=self._serve, args=(kind, queue), name=f"schedlab-{kind}", daemon=True)
            self._threads.append(thread)
            thread.start()
        return self._queues[kind]

    def _serve(self, kind: CopyKind, queue: _Queue) -> None:
        with torch.inference_mode(), self._stream():
            while (job := queue.get()) is not None:
                ticket, op, image = job
                ticket.error = self._run(kind, op, image)
                self._open_bytes[kind] -= op.num_bytes
                ticket.ended.set()
                for notify in self.on_done:
                    notify(ticket, ticket.error)

    def _run(self, kind: CopyKind, op: CopyOp, image: Image) -> str:
        """Do it; why it failed, or "". A copy that reads what another one did not bring fails too."""
        try:
            self.wait(op.after)
            begin_ns = perf_counter_ns()
            self._moves[kind](op, image)
            self._bytes_per_ns[kind] = op.num_bytes / max(1, perf_counter_ns() - begin_ns)
        except (SchedlabError, RuntimeError, OSError) as error:
            return f"{kind}: {error}"
        return ""

    def _save(self, op: CopyOp, image: Image) -> None:
        staged = self._operations.gather_blocks(self._pool, self._ids(op))
        if staged.is_cuda:
            staged = staged.to("cpu")
        if not image.is_dropped:
            image.staged = staged

    def _restore(self, op: CopyOp, image: Image) -> None:
        staged = _staged(image)
        self._operations.scatter_blocks(self._pool, self._ids(op), staged.to(self._pool.device))
        if self._pool.is_cuda:
            torch.cuda.current_stream(self._pool.device).synchronize()
        self.images.discard(image)

    def _write(self, op: CopyOp, image: Image) -> None:
        staged, store = _staged(image), self._store()
        content = staged.contiguous().view(torch.uint8).flatten()
        header = ImageHeader(
            request_id=str(op.request_id),
            tokens=staged.shape[2] * self._block_size,
            num_computed=staged.shape[2] * self._block_size,
            num_outputs=0,
            adapter=None,
            block_size=self._block_size,
            dtype=str(staged.dtype),
            num_blocks=staged.shape[2],
        )
        tensors = {"blocks": TensorBytes("U8", tuple(content.shape), memoryview(content.numpy()))}
        self.images.keep(image, store.put(Tier.DISK, header, tensors))

    def _stage(self, op: CopyOp, image: Image) -> None:
        if image.spilled is None:
            raise SchedlabError(f"request {op.request_id} has no image on disk")
        _, tensors = self._store().get(image.spilled)
        content = torch.frombuffer(bytearray(tensors["blocks"].data), dtype=torch.uint8)
        layers, kinds, _, *block = self._pool.shape
        image.staged = content.view(self._pool.dtype).view(layers, kinds, -1, *block)

    def _store(self) -> SpillStore:
        if self.images.store is None:
            raise SchedlabError("there is no disk tier; set swap_disk_gib")
        return self.images.store

    def _stream(self) -> AbstractContextManager[object]:
        """A stream of this thread's own, so that copies run beside the steps."""
        return torch.cuda.stream(torch.cuda.Stream(self._pool.device)) if self._pool.is_cuda else nullcontext()

    def _ids(self, op: CopyOp) -> Tensor:
        return torch.tensor(op.blocks, dtype=torch.int64, device=self._pool.device)


def _staged(image: Image) -> Tensor:
    if image.staged is None:
        raise SchedlabError("the image is not on the host")
    return image.staged
