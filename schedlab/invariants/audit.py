"""Laws about every block and every live sequence: O(blocks + live sequences)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlab.invariants.violation import violation
from schedlab.memory.prefix import CachingBlockPool
from schedlab.sequence import Sequence, State

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler


def blocks_are_conserved(core: Scheduler) -> None:
    """Free blocks (empty or idle) and held ones are all blocks, none twice and none both."""
    pool = core.pool
    free = pool.free_list() + (pool.idle_list() if isinstance(pool, CachingBlockPool) else ())
    distinct = set(free)
    if len(distinct) != len(free) or len(free) != pool.free_blocks:
        raise violation("blocks_are_conserved", f"{len(distinct)} free blocks, {len(free)} listed, {pool.free_blocks}")
    held = sum(core.pool.references(block) > 0 for block in range(core.pool.total_blocks))
    if len(free) + held != core.pool.total_blocks:
        raise violation("blocks_are_conserved", f"{len(free)} free + {held} held, {core.pool.total_blocks} in all")


def references_are_holders(core: Scheduler) -> None:
    """A block's count is the number of tables that hold it."""
    holders = [0] * core.pool.total_blocks
    for sequence in core.sequences.values():
        for block in sequence.block_table:
            holders[block] += 1
    for block, count in enumerate(holders):
        if core.pool.references(block) != count:
            raise violation(
                "references_are_holders", f"block {block} counts {core.pool.references(block)}, {count} tables hold it"
            )


def no_block_is_written_by_two(core: Scheduler) -> None:
    """No block is twice in one table, and the one that an owner has begun to write is its alone."""
    for sequence in core.view.owners():
        table = sequence.block_table
        if len(set(table)) != len(table):
            raise violation("no_block_is_written_by_two", f"{sequence} has a block twice: {table}")
        computed = core.batch.length(sequence) if sequence in core.batch else sequence.num_computed
        if computed % core.config.block_size and core.pool.references(table[-1]) != 1:
            raise violation(
                "no_block_is_written_by_two",
                f"{sequence} writes block {table[-1]}, which {core.pool.references(table[-1])} hold",
            )


def waiting_are_pending(core: Scheduler) -> None:
    """The queue has each pending sequence once, and nothing else; they own nothing."""
    pending = sum(sequence.state is State.PENDING for sequence in core.sequences.values())
    if pending != len(core.waiting):
        raise violation("waiting_are_pending", f"{pending} pending, {len(core.waiting)} in the queue")
    seen: set[Sequence] = set()
    for sequence in core.waiting.candidates():
        if sequence.state is not State.PENDING or core.sequences.get(sequence.request_id) is not sequence:
            raise violation("waiting_are_pending", f"{sequence} is in the queue")
        if sequence in seen or sequence.block_table or sequence.reserved_blocks or sequence.num_computed:
            raise violation("waiting_are_pending", f"{sequence} is in the queue twice or owns something")
        seen.add(sequence)


def deadlines_are_watched(core: Scheduler) -> None:
    """Every live sequence with a deadline is in the heap of deadlines."""
    watched = {sequence for _, _, sequence in core.deadlines}
    for sequence in core.sequences.values():
        if sequence.request.deadline_ns is not None and sequence not in watched:
            raise violation("deadlines_are_watched", f"nobody watches the deadline of {sequence}")


AUDIT_LAWS = (
    blocks_are_conserved,
    references_are_holders,
    no_block_is_written_by_two,
    waiting_are_pending,
    deadlines_are_watched,
)
