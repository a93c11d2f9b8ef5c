"""Copies of blocks off the device: in host memory and on disk, by request and by number of the block within it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence as List
from typing import NamedTuple

from backends.sim.links import CopyTicket
from backends.sim.shadow_blocks import Held
from schedlab.device import CopyOp

NEVER = 1 << 100


class Copied(NamedTuple):
    """A block's contents, and when the copy that brings them has ended."""

    held: Held
    ready_quanta: int


CopiedBlocks = defaultdict[int, dict[int, Copied]]


class Images:
    """What a reader finds depends on when it begins: a copy that has not ended, or failed, is nothing.

    Host copies of what was written to disk stay until they are read back or replaced: a disk may fail.
    """

    __slots__ = ("_disk", "_host", "_saved", "_slots")

    def __init__(self) -> None:
        self._host: CopiedBlocks = defaultdict(dict)
        self._disk: CopiedBlocks = defaultdict(dict)
        self._saved: defaultdict[int, dict[int, range]] = defaultdict(dict)
        self._slots: dict[int, int] = {}

    def save(self, op: CopyOp, held: List[Held], slot_digest: int, ticket: CopyTicket) -> None:
        """From the device to the host, with the state of the request's slot; nothing if the copy fails."""
        host, indices = self._host[op.request_id], range(op.first_block, op.first_block + len(held))
        for index, one in zip(indices, held, strict=True):
            host[index] = Copied(one, NEVER if ticket.error else ticket.end_quanta)
        self._saved[op.request_id][ticket.number] = indices
        self._slots[op.request_id] = slot_digest

    def write(self, op: CopyOp, ticket: CopyTicket) -> None:
        """From the host to the disk: what the copies that it waits for have brought."""
        host, disk = self._host[op.request_id], self._disk[op.request_id]
        for save in op.after:
            for index in self._saved[op.request_id].pop(save.number, ()):
                is_lost = ticket.error or host[index].ready_quanta > ticket.end_quanta
                disk[index] = Copied(host[index].held, NEVER if is_lost else ticket.end_quanta)

    def stage(self, op: CopyOp, begin_quanta: int, ticket: CopyTicket) -> None:
        """From the disk to the host: every block from the first that is wanted on."""
        self._host[op.request_id] = {
            index: Copied(copied.held, ticket.end_quanta)
            for index, copied in self._disk[op.request_id].items()
            if index >= op.first_block and copied.ready_quanta <= begin_quanta and not ticket.error
        }

    def take(self, request_id: int, first: int, count: int, begin_quanta: int) -> tuple[list[Held | None], int]:
        """From the host to the device: `count` blocks from number `first` on, and the state of the slot."""
        host = self._host[request_id]
        taken = [host.pop(index, None) for index in range(first, first + count)]
        return [_ready(copied, begin_quanta) for copied in taken], self._slots.pop(request_id, 0)

    def on_disk(self, request_id: int, index: int, begin_quanta: int) -> Held | None:
        """What a step that begins then finds of one block."""
        return _ready(self._disk[request_id].get(index), begin_quanta)

    def forget(self, request_id: int) -> None:
        """The request has ended, or is computed again."""
        for kept in (self._host, self._disk, self._saved, self._slots):
            kept.pop(request_id, None)


def _ready(copied: Copied | None, begin_quanta: int) -> Held | None:
    return copied.held if copied is not None and copied.ready_quanta <= begin_quanta else None
