"""Sequences leave the device with their content, and come back. Copies run beside the steps, each with its ticket."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from schedlab.config import PreemptionMode
from schedlab.core import caching
from schedlab.core.windows import offload_ended
from schedlab.device import CopyKind, CopyOp, Ticket
from schedlab.events import RESTORE_FAILED, Restored, Restoring, SwappedOut
from schedlab.memory.swap import Image, Tier
from schedlab.sequence import Sequence, State

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler

# Tiers to try, best first; a victim that none has room for is computed again.
TIERS: dict[PreemptionMode, tuple[Tier, ...]] = {
    PreemptionMode.HOST: (Tier.HOST,),
    PreemptionMode.DISK: (Tier.DISK, Tier.HOST),
    PreemptionMode.RECOMPUTE: (),
}


class Purpose(StrEnum):
    """What a copy in flight is for."""

    SAVE = "save"
    WRITE = "write"
    STAGE = "stage"
    RESTORE = "restore"


class OpenCopy(NamedTuple):
    """A copy that has not ended, and the image that it reads or writes."""

    purpose: Purpose
    sequence: Sequence
    image: Image


def swap_out(core: Scheduler, sequence: Sequence, mode: PreemptionMode) -> bool:
    """Swap an active sequence out at once, its blocks free at once; False if no tier has room. Nothing is sent."""
    if sequence.state is not State.ACTIVE:
        return False
    num_blocks = len(sequence.block_table)
    num_bytes = image_bytes(core, sequence)
    tier = next((tier for tier in TIERS[mode] if core.swap.has_room(tier, num_bytes)), None)
    if tier is None:
        return False
    slot = sequence.slot
    core.unseat(sequence)
    core.swap.take(tier, num_bytes)
    blocks, request_id = sequence.block_table, sequence.request_id
    saved = core.device.copy(
        CopyOp(CopyKind.DEVICE_TO_HOST, tuple(blocks), num_bytes, request_id, (), _first_block(sequence), slot)
    )
    if core.device.facts.state_bytes:
        core.slots.keep_open(slot, saved)
    image = sequence.image = Image(tier, num_blocks, num_bytes, saved)
    core.copies[saved.number] = OpenCopy(Purpose.SAVE, sequence, image)
    if tier is Tier.DISK:
        image.written = core.device.copy(CopyOp(CopyKind.HOST_TO_DISK, (), num_bytes, request_id, (saved,)))
        core.copies[image.written.number] = OpenCopy(Purpose.WRITE, sequence, image)
    core.pool.release_after(blocks, saved)
    sequence.block_table = []
    caching.forget_prefix(sequence)
    sequence.num_swaps += 1
    core.park(sequence, State.SWAPPED)
    for notify in core.bus.on_swapped_out:
        notify(SwappedOut(core.device.now_ns(), sequence, tier, num_blocks, num_bytes))
    return True


def restore(core: Scheduler, sequence: Sequence) -> None:
    """Begin to bring a swapped sequence back. It owns a seat and blocks, but is in no batch until its copy ends."""
    image = sequence.image
    assert image is not None
    core.unpark(sequence, State.RESTORING)
    reader = core.slots.claim(sequence)
    sequence.block_table = core.pool.allocate(image.num_blocks)
    after = core.pool.take_tickets() + tuple(ticket for ticket in (image.written, reader) if ticket is not None)
    num_bytes, request_id, first = image.num_bytes, sequence.request_id, _first_block(sequence)
    if image.tier is Tier.DISK:
        staged = core.device.copy(CopyOp(CopyKind.DISK_TO_HOST, (), num_bytes, request_id, after, first))
        core.copies[staged.number] = OpenCopy(Purpose.STAGE, sequence, image)
        after += (staged,)
    blocks = tuple(sequence.block_table)
    copy = CopyOp(CopyKind.HOST_TO_DEVICE, blocks, num_bytes, request_id, after, first, sequence.slot)
    ticket = core.device.copy(copy)
    core.copies[ticket.number] = OpenCopy(Purpose.RESTORE, sequence, image)
    core.restoring[sequence] = ticket
    for notify in core.bus.on_restoring:
        notify(Restoring(core.device.now_ns(), sequence))


def copy_ended(core: Scheduler, ticket: Ticket, error: str) -> None:
    """A copy that the scheduler began has ended. Its sequence may have ended before, or gone on without its image."""
    if (window := core.offloads.pop(ticket.number, None)) is not None:
        offload_ended(core, window, error)
        return
    copy = core.copies.pop(ticket.number, None)
    core.pool.close(ticket)
    core.slots.close(ticket)
    if copy is None or copy.sequence.image is not copy.image:
        return
    if copy.image.written is not None and copy.image.written.number == ticket.number:
        copy.image.written = None
    if copy.purpose is Purpose.RESTORE:
        _end_restore(core, copy.sequence, error)
    elif error:
        _lose_image(core, copy)


def drop_image(core: Scheduler, sequence: Sequence) -> None:
    """The image is of no use any more."""
    image, sequence.image = sequence.image, None
    if image is not None:
        core.swap.give_back(image.tier, image.num_bytes)


def image_bytes(core: Scheduler, owner: Sequence) -> int:
    """The size of an active sequence's image: its blocks, and the state that it carries beside them."""
    facts = core.device.facts
    return len(owner.block_table) * facts.block_bytes + facts.state_bytes


def _first_block(sequence: Sequence) -> int:
    """Which of its blocks the first of its table is: those before it are on disk for good."""
    return sequence.window.start if sequence.window is not None else 0


def _end_restore(core: Scheduler, sequence: Sequence, error: str) -> None:
    drop_image(core, sequence)
    # The copy has ended: nobody who gets the blocks or the slot has to wait for it.
    del core.restoring[sequence]
    if error:
        core.preempt(sequence, RESTORE_FAILED)
        return
    sequence.immune_until_outputs = sequence.num_outputs + core.config.immunity_tokens
    now_ns = core.device.now_ns()
    core.activate(sequence, now_ns)
    for notify in core.bus.on_restored:
        notify(Restored(now_ns, sequence))


def _lose_image(core: Scheduler, copy: OpenCopy) -> None:
    """A copy failed. A staged image that the disk refused stays on the host if there is room; else it is recomputed."""
    sequence, image = copy.sequence, copy.image
    is_parked = sequence.state is State.SWAPPED
    if copy.purpose is Purpose.WRITE and is_parked and core.swap.has_room(Tier.HOST, image.num_bytes):
        core.swap.give_back(image.tier, image.num_bytes)
        core.swap.take(Tier.HOST, image.num_bytes)
        image.tier = Tier.HOST
        return
    drop_image(core, sequence)
    if is_parked:
        core.compute_again(sequence)
    elif sequence.state is State.RESTORING:
        core.preempt(sequence, RESTORE_FAILED)
