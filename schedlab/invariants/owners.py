"""Laws about whoever owns a seat or has been preempted: O(such sequences)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlab.law import Law, When
from schedlab.memory.blocks import blocks_for
from schedlab.sequence import NOT_YET, Sequence, State

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler

STATES = Law(
    "containers_agree_with_states",
    "A request's state says where it is kept, and it can be found by its id as long as it lives.",
    When.SWEEP,
    scenarios=(2,),
)
PARKED = Law(
    "parked_own_nothing",
    "A preempted or swapped-out request has no block, slot or reservation; it has an image just if it is swapped.",
    When.SWEEP,
    numbers=(9, 49),
    scenarios=(2,),
)
TABLES = Law(
    "tables_cover_exactly_the_tokens",
    "A block table has as many blocks as its computed tokens fill (disk apart), and all used blocks are in tables.",
    When.SWEEP,
    numbers=(6, 7),
    scenarios=(1,),
)
RESERVATIONS = Law(
    "reservations_are_what_prefills_will_take",
    "A prefill in progress reserves the blocks that its known tokens still need, and the kept sum is the sum of them.",
    When.SWEEP,
    numbers=(2, 26),
)
LENGTHS = Law(
    "lengths_within_limits",
    "A running request may produce one more token within its max_tokens and the model's length.",
    When.SWEEP,
    numbers=(15, 16),
)
SLOTS = Law(
    "slots_have_one_owner",
    "Each owner of a seat owns one slot that exists, and no slot has two owners.",
    When.SWEEP,
    numbers=(10, 11),
)


def computed_tokens(core: Scheduler, sequence: Sequence) -> int:
    """Of any sequence, rows of the batch included."""
    return core.batch.length(sequence) if sequence in core.batch.rows else sequence.num_computed


def containers_agree_with_states(core: Scheduler) -> None:
    for sequences, states in (
        (core.prefilling, (State.PREFILLING,)),
        (core.batch.rows, (State.ACTIVE,)),
        (core.parked, (State.PREEMPTED, State.SWAPPED)),
        (core.restoring, (State.RESTORING,)),
    ):
        for sequence in sequences:
            if sequence.state not in states or core.sequences.get(sequence.request_id) is not sequence:
                raise STATES.broken(f"{sequence} is kept among the {states[0]}", sequence.request_id)


def parked_own_nothing(core: Scheduler) -> None:
    for sequence in core.parked:
        is_swapped = sequence.state is State.SWAPPED
        if (sequence.image is not None) is not is_swapped or bool(sequence.num_computed) is not is_swapped:
            raise PARKED.broken(
                f"{sequence}: {sequence.image}, {sequence.num_computed} tokens computed", sequence.request_id
            )
        if sequence.block_table or sequence.reserved_blocks or sequence.slot != NOT_YET:
            raise PARKED.broken(
                f"{sequence} has {len(sequence.block_table)} blocks, {sequence.reserved_blocks} reserved, slot "
                f"{sequence.slot}",
                sequence.request_id,
            )


def tables_cover_exactly_the_tokens(core: Scheduler) -> None:
    """Shared blocks are counted by the audit."""
    size, held = core.config.block_size, 0
    for sequence in (*core.view.owners(), *core.restoring):
        computed = computed_tokens(core, sequence)
        far_blocks = sequence.window.start if sequence.window is not None else 0
        blocks = len(sequence.block_table)
        held += blocks
        if blocks + far_blocks != -(-computed // size):
            raise TABLES.broken(
                f"{sequence} has {blocks} blocks of {size} and {far_blocks} more on disk for {computed} tokens",
                sequence.request_id,
            )
    if held != core.pool.used_blocks and not core.config.prefix_cache:
        raise TABLES.broken(f"tables hold {held} blocks, {core.pool.used_blocks} are used")


def reservations_are_what_prefills_will_take(core: Scheduler) -> None:
    total = 0
    for sequence in core.prefilling:
        total += sequence.reserved_blocks
        missing = blocks_for(sequence.num_known, core.config.block_size) - len(sequence.block_table)
        if sequence.reserved_blocks != missing:
            raise RESERVATIONS.broken(
                f"{sequence} reserves {sequence.reserved_blocks} blocks and lacks {missing}", sequence.request_id
            )
    if total != core.reserved_blocks:
        raise RESERVATIONS.broken(f"sum {total}, kept sum {core.reserved_blocks} blocks")


def lengths_within_limits(core: Scheduler) -> None:
    longest, batch = core.config.max_model_len, core.batch
    for sequence in core.view.owners():
        outputs = batch.outputs(sequence) if sequence in batch.rows else sequence.num_outputs
        known = sequence.num_prompt_tokens + outputs
        if outputs >= max(sequence.max_outputs, 1) or known > longest:
            raise LENGTHS.broken(
                f"{sequence} has {outputs} of {sequence.max_outputs} outputs and {known} tokens of {longest}",
                sequence.request_id,
            )


def slots_have_one_owner(core: Scheduler) -> None:
    owner, num_slots = core.slots.owner, core.slots.num_slots
    for sequence in (*core.view.owners(), *core.restoring):
        if owner(sequence.slot) is not sequence or not 0 <= sequence.slot < num_slots:
            raise SLOTS.broken(
                f"{sequence} says slot {sequence.slot} of {num_slots}, which {owner(sequence.slot)} owns",
                sequence.request_id,
            )


OWNER_CHECKS = (
    containers_agree_with_states,
    parked_own_nothing,
    tables_cover_exactly_the_tokens,
    reservations_are_what_prefills_will_take,
    lengths_within_limits,
    slots_have_one_owner,
)
