"""Laws about every block and every live sequence: O(blocks + live sequences)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlab.invariants.owners import computed_tokens
from schedlab.law import Law, When
from schedlab.memory.prefix import CachingBlockPool
from schedlab.policies.queues import FifoQueue, KeyedQueue
from schedlab.sequence import Sequence, State

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler

CONSERVED = Law(
    "blocks_are_conserved",
    "Each block of the pool is free once (empty or idle) or held, never both and never lost.",
    When.AUDIT,
    numbers=(1, 3),
    scenarios=(1,),
)
REFERENCES = Law(
    "references_are_holders",
    "A block counts as many references as block tables hold it.",
    When.AUDIT,
    numbers=(2, 56),
    scenarios=(1,),
)
ONE_WRITER = Law(
    "no_block_is_written_by_two",
    "The block that a sequence has begun to write is its alone, and no table has a block twice.",
    When.AUDIT,
    numbers=(5,),
    scenarios=(1,),
)
WAITING = Law(
    "waiting_are_pending",
    "The queue has each pending request once and nothing else, and who waits there owns nothing.",
    When.AUDIT,
    scenarios=(2,),
)
QUEUE_ORDER = Law(
    "the_queue_keeps_its_order",
    "Requests that wait keep the order that the policy gives them: its rank, then arrival.",
    When.AUDIT,
    numbers=(23, 25),
)
DEADLINES = Law(
    "deadlines_are_watched", "Every live request that has a deadline is watched for it.", When.AUDIT, numbers=(20,)
)


def blocks_are_conserved(core: Scheduler) -> None:
    pool = core.pool
    free = pool.free_list() + (pool.idle_list() if isinstance(pool, CachingBlockPool) else ())
    distinct = set(free)
    if len(distinct) != len(free) or len(free) != pool.free_blocks:
        raise CONSERVED.broken(f"{len(distinct)} free blocks, {len(free)} listed, {pool.free_blocks} counted")
    held = sum(map(bool, pool.reference_counts()))
    if len(free) + held != pool.total_blocks:
        raise CONSERVED.broken(f"{len(free)} free + {held} held, {pool.total_blocks} in all")


def references_are_holders(core: Scheduler) -> None:
    counts, holders = core.pool.reference_counts(), [0] * core.pool.total_blocks
    for sequence in core.sequences.values():
        for block in sequence.block_table:
            holders[block] += 1
    if holders == list(counts):
        return
    for block, count in enumerate(holders):
        if counts[block] != count:
            raise REFERENCES.broken(f"block {block} counts {counts[block]}, {count} tables hold it")


def no_block_is_written_by_two(core: Scheduler) -> None:
    for sequence in core.view.owners():
        table = sequence.block_table
        if len(set(table)) != len(table):
            raise ONE_WRITER.broken(f"{sequence} has a block twice: {table}", sequence.request_id)
        if computed_tokens(core, sequence) % core.config.block_size and core.pool.references(table[-1]) != 1:
            raise ONE_WRITER.broken(
                f"{sequence} writes block {table[-1]}, which {core.pool.references(table[-1])} hold",
                sequence.request_id,
            )


def waiting_are_pending(core: Scheduler) -> None:
    pending = sum(sequence.state is State.PENDING for sequence in core.sequences.values())
    if pending != len(core.waiting):
        raise WAITING.broken(f"{pending} pending, {len(core.waiting)} in the queue")
    seen: set[Sequence] = set()
    for sequence in core.waiting.candidates():
        if sequence.state is not State.PENDING or core.sequences.get(sequence.request_id) is not sequence:
            raise WAITING.broken(f"{sequence} is in the queue", sequence.request_id)
        if sequence in seen or sequence.block_table or sequence.reserved_blocks or sequence.num_computed:
            raise WAITING.broken(f"{sequence} is in the queue twice or owns something", sequence.request_id)
        seen.add(sequence)


def the_queue_keeps_its_order(core: Scheduler) -> None:
    """Of queues whose order the rank gives; a policy's own queue has an order of its own."""
    if not isinstance(core.waiting, (FifoQueue, KeyedQueue)):
        return
    before: Sequence | None = None
    for sequence in core.waiting.candidates():
        if before is not None and not core.policy.rank(before) < core.policy.rank(sequence):
            raise QUEUE_ORDER.broken(f"{before} stands before {sequence}", sequence.request_id)
        before = sequence


def deadlines_are_watched(core: Scheduler) -> None:
    watched = {sequence for _, _, sequence in core.deadlines}
    for sequence in core.sequences.values():
        if sequence.request.deadline_ns is not None and sequence not in watched:
            raise DEADLINES.broken(f"nobody watches the deadline of {sequence}", sequence.request_id)


AUDIT_CHECKS = (
    blocks_are_conserved,
    references_are_holders,
    no_block_is_written_by_two,
    waiting_are_pending,
    the_queue_keeps_its_order,
    deadlines_are_watched,
)
