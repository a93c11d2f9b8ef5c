"""Long sequences slide: their oldest blocks go to disk and leave the device once they are safe there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlab.device import CopyKind, CopyOp
from schedlab.memory.prefix import CachingBlockPool
from schedlab.memory.swap import Tier
from schedlab.memory.window import Window
from schedlab.sequence import Sequence

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler

# Copies begin so many blocks before the share is used up, so that a block can leave when the next one comes.
AHEAD_BLOCKS = 1


def slide(core: Scheduler) -> None:
    """Let every decode row beyond its share offload its oldest blocks, and release those that are safe.

    A row whose copies are late, or for which the disk has no room, keeps more than its share; it is never in error.
    """
    # Alone in a full pool a row needs a place for its next block: its share is never the whole pool.
    share = min(core.config.window_blocks, core.pool.total_blocks - AHEAD_BLOCKS)
    for sequence in core.batch.rows:
        total = len(sequence.block_table) + (sequence.window.start if sequence.window else 0)
        if total + AHEAD_BLOCKS > share:
            # The newest block is still written to.
            _offload(core, sequence, min(total + AHEAD_BLOCKS - share, total - 1))
            _release(core, sequence, total - share)


def is_freeing(core: Scheduler) -> bool:
    """Is a copy under way whose end lets a block of a decode row leave the device?"""
    return any(row.window is not None and row.window.has_open_copies for row in core.batch.rows)


def leave(core: Scheduler, sequence: Sequence) -> None:
    """A sequence gives up its blocks: those whose beginning has left before are hidden too."""
    if sequence.window is not None and sequence.window.start:
        _hide(core, sequence, len(sequence.block_table))


def offload_ended(core: Scheduler, window: Window, error: str) -> None:
    """The copy of the next block of a window has ended."""
    if error:
        window.is_stuck = True
    elif not window.is_stuck:
        window.offloaded += 1
        core.progress = True


def drop_window(core: Scheduler, sequence: Sequence) -> None:
    """The sequence is computed again or has ended: what it had on disk is of no use."""
    window, sequence.window = sequence.window, None
    if window is not None:
        core.swap.give_back(Tier.DISK, window.requested * core.device.facts.block_bytes)


def _offload(core: Scheduler, sequence: Sequence, wanted: int) -> None:
    window = sequence.window = sequence.window or Window()
    num_bytes = core.device.facts.block_bytes
    while window.requested < wanted and not window.is_stuck and core.swap.has_room(Tier.DISK, num_bytes):
        block = sequence.block_table[window.requested - window.start]
        core.swap.take(Tier.DISK, num_bytes)
        request_id, index = sequence.request_id, window.requested
        saved = core.device.copy(CopyOp(CopyKind.DEVICE_TO_HOST, (block,), num_bytes, request_id, (), index))
        core.pool.keep_open([block], saved)
        written = core.device.copy(CopyOp(CopyKind.HOST_TO_DISK, (), num_bytes, request_id, (saved,)))
        core.offloads[written.number] = window
        window.requested += 1


def _release(core: Scheduler, sequence: Sequence, excess: int) -> None:
    window = sequence.window
    assert window is not None
    leaving = min(excess, window.offloaded) - window.start
    if leaving > 0:
        _hide(core, sequence, leaving)
        core.pool.release(sequence.block_table[:leaving])
        del sequence.block_table[:leaving]
        window.start += leaving
        core.batch.far_blocks += leaving
        core.changes += 1


def _hide(core: Scheduler, sequence: Sequence, count: int) -> None:
    """Nobody finds the first blocks of a table any more, but where others hold them; so idle blocks stay in order."""
    if sequence.has_keys:
        assert isinstance(core.pool, CachingBlockPool)
        core.pool.hide(sequence.block_table[:count])
