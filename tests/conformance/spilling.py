"""A shadow device whose images of swapped-out sequences really lie in a `SpillStore`: bytes in host memory, files on a
disk. What the store refuses or cannot give back is the error of the copy, as a real device would report it.

Time is virtual: the store does at a copy's beginning what the link takes its time for.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable

from backends.sim.clock import SimClock
from backends.sim.costs.base import CostModel
from backends.sim.links import CopyTicket, Links, LinkSpec
from backends.sim.outputs import OutputModel
from backends.sim.shadow_blocks import Held
from backends.sim.shadow_kv import ShadowDevice
from schedlab.device import CopyKind, CopyOp, DeviceFacts
from schedlab.events import Resumed
from schedlab.memory.spill import ImageHandle, ImageHeader, SpillError, SpillStore, TensorBytes, Tier
from schedlab.sequence import Sequence

# A block's image: digest, tokens, request and number, again and again up to a size that fills a small disk.
FORMAT = struct.Struct("<Qqqq")
COPIES = 128
BLOCK_IMAGE_BYTES = FORMAT.size * COPIES


class StoreLinks(Links):
    """A copy fails if the store did."""

    __slots__ = ("error",)

    def error_of(self, op: CopyOp, end_quanta: int) -> str:
        return self.error


class SpillingDevice(ShadowDevice):
    """Images are put, moved, read and dropped in `store`.

    Args:
        before: called with the kind and the handle of each image just before the store is, as chance would.

    Attributes:
        failures: (kind of copy, type of error) -> how often.
    """

    links: StoreLinks

    def __init__(
        self,
        clock: SimClock,
        cost: CostModel,
        outputs: OutputModel,
        facts: DeviceFacts,
        links: Links,
        *,
        store: SpillStore,
        link: LinkSpec,
        before: Callable[[CopyKind, ImageHandle | None], None],
    ) -> None:
        super().__init__(clock, cost, outputs, facts, StoreLinks(clock, dict.fromkeys(CopyKind, link)))
        self.store = store
        self.failures: Counter[tuple[CopyKind, str]] = Counter()
        self._before = before
        self._handles: dict[int, ImageHandle] = {}

    def copy(self, op: CopyOp) -> CopyTicket:
        self.links.error, read = inherited_error(op), list[Held]()
        self._before(op.kind, self._handles.get(op.request_id))
        if not self.links.error:
            try:
                read = self._in_store(op)
            except SpillError as error:
                self.links.error = str(error)
                self.failures[op.kind, type(error).__name__] += 1
        ticket = super().copy(op)
        if read:
            arrival = self._arrivals[ticket.number]
            assert arrival.held == read, "the store gave back other bytes and did not notice"
            self._arrivals[ticket.number] = arrival._replace(held=list(read))
        return ticket

    def on_resumed(self, event: Resumed) -> None:
        self._drop(event.sequence.request_id)
        super().on_resumed(event)

    def forget(self, sequence: Sequence) -> None:
        self._drop(sequence.request_id)
        super().forget(sequence)

    def _in_store(self, op: CopyOp) -> list[Held]:
        """Do it; what was read, if it is a copy to the device."""
        if op.kind is CopyKind.DEVICE_TO_HOST:
            self._drop(op.request_id)
            self._handles[op.request_id] = self.store.put(Tier.HOST, self._header(op), self._tensors(op.blocks))
            return []
        handle = self._handles[op.request_id]
        if op.kind is CopyKind.HOST_TO_DISK:
            self.store.move(handle, Tier.DISK)
        elif op.kind is CopyKind.DISK_TO_HOST:
            self.store.move(handle, Tier.HOST)
        else:
            header, tensors = self.store.get(handle)
            assert (header.request_id, header.num_blocks) == (str(op.request_id), len(op.blocks))
            return [decoded(tensors[str(index)]) for index in range(header.num_blocks)]
        return []

    def _header(self, op: CopyOp) -> ImageHeader:
        sequence = self._core.sequences[op.request_id]
        return ImageHeader(
            request_id=str(op.request_id),
            tokens=sequence.num_known,
            num_computed=sequence.num_computed,
            num_outputs=sequence.num_outputs,
            adapter=sequence.request.adapter or None,
            block_size=self._core.config.block_size,
            dtype="U8",
            num_blocks=len(op.blocks),
        )

    def _tensors(self, blocks: tuple[int, ...]) -> dict[str, TensorBytes]:
        return {str(index): encoded(self.blocks.get(block)) for index, block in enumerate(blocks)}

    def _arrive(self, ticket: CopyTicket) -> None:
        if ticket.number in self._arrivals and not ticket.error:
            self._drop(ticket.request_id)
        super()._arrive(ticket)

    def _drop(self, request_id: int) -> None:
        handle = self._handles.pop(request_id, None)
        if handle is not None:
            self.store.drop(handle)


def inherited_error(op: CopyOp) -> str:
    """A copy that goes on from one that failed fails too."""
    own = [ticket for ticket in op.after if isinstance(ticket, CopyTicket) and ticket.request_id == op.request_id]
    return next((ticket.error for ticket in own if ticket.error), "")


def encoded(held: Held) -> TensorBytes:
    return TensorBytes("U8", (BLOCK_IMAGE_BYTES,), FORMAT.pack(*held) * COPIES)


def decoded(tensor: TensorBytes) -> Held:
    copies = {Held(*fields) for fields in FORMAT.iter_unpack(tensor.data)}
    assert len(copies) == 1, "a block came back in pieces that differ"
    return copies.pop()
