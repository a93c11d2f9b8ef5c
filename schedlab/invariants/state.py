"""Laws that hold between two ticks, after `end_tick`. Each is a function that raises `InvariantViolation`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlab.invariants.audit import AUDIT_LAWS
from schedlab.invariants.violation import violation
from schedlab.memory.blocks import blocks_for
from schedlab.sequence import Sequence, State

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler


def check(core: Scheduler) -> None:
    """Check every law that must hold at a tick's end. O(blocks + live sequences).

    Raises:
        InvariantViolation: a law does not hold; the message names the law and the numbers.
    """
    check_tick(core)
    for law in AUDIT_LAWS:
        law(core)


def check_tick(core: Scheduler) -> None:
    """The laws that cost O(owners of seats + preempted) only."""
    for law in TICK_LAWS:
        law(core)


def tick_is_over(core: Scheduler) -> None:
    """Nothing is in flight and whoever ended has retired."""
    if core.in_flight is not None or core.ending:
        raise violation("tick_is_over", f"in flight {core.in_flight}, ending {list(core.ending)}")


def seats_within_limit(core: Scheduler) -> None:
    """Owners of seats (prefilling, active and restoring together) are at most `max_num_seqs`."""
    owners = len(core.batch) + len(core.prefilling) + len(core.restoring)
    if owners > core.config.max_num_seqs or core.free_seats != core.config.max_num_seqs - owners:
        raise violation(
            "seats_within_limit", f"{owners} owners, {core.free_seats} free of {core.config.max_num_seqs} seats"
        )


def containers_add_up(core: Scheduler) -> None:
    """Waiting, prefilling, active, parked and restoring sequences are all the live ones."""
    sizes = len(core.waiting), len(core.prefilling), len(core.batch), len(core.parked), len(core.restoring)
    if sum(sizes) != len(core.sequences):
        raise violation(
            "containers_add_up", f"waiting, prefilling, active, parked, restoring {sizes}; {len(core.sequences)} live"
        )


def containers_agree_with_states(core: Scheduler) -> None:
    """A sequence's state is that of the container that it is in, and it is known as live by its id."""
    for sequences, states in (
        (core.prefilling, (State.PREFILLING,)),
        (core.batch.rows, (State.ACTIVE,)),
        (core.parked, (State.PREEMPTED, State.SWAPPED)),
        (core.restoring, (State.RESTORING,)),
    ):
        for sequence in sequences:
            if sequence.state not in states or core.sequences.get(sequence.request_id) is not sequence:
                raise violation("containers_agree_with_states", f"{sequence} is among the {states[0]}")


def parked_own_nothing(core: Scheduler) -> None:
    """A parked sequence has no block and no reservation; what it has computed is in its image, or it has neither."""
    for sequence in core.parked:
        is_swapped = sequence.state is State.SWAPPED
        if (sequence.image is not None) is not is_swapped or bool(sequence.num_computed) is not is_swapped:
            raise violation("parked_own_nothing", f"{sequence}: {sequence.image}, {sequence.num_computed} computed")
        if sequence.block_table or sequence.reserved_blocks:
            raise violation(
                "parked_own_nothing",
                f"{sequence} has {len(sequence.block_table)} blocks, {sequence.reserved_blocks} reserved",
            )


def tables_cover_exactly_the_tokens(core: Scheduler) -> None:
    """An owner's table has as many blocks as its computed tokens fill, and all used blocks are in tables.

    Blocks of a window that are on disk are not in it. Shared blocks are counted by the audit.
    """
    size, held = core.config.block_size, 0
    for sequence in (*core.view.owners(), *core.restoring):
        computed = core.batch.length(sequence) if sequence in core.batch else sequence.num_computed
        far_blocks = sequence.window.start if sequence.window is not None else 0
        held += len(sequence.block_table)
        if len(sequence.block_table) + far_blocks != blocks_for(computed, size):
            raise violation(
                "tables_cover_exactly_the_tokens",
                f"{sequence} has {len(sequence.block_table)} blocks of {size}, {far_blocks} more on disk, for "
                f"{computed} tokens",
            )
    if held != core.pool.used_blocks and not core.config.prefix_cache:
        raise violation(
            "tables_cover_exactly_the_tokens", f"tables hold {held} blocks, {core.pool.used_blocks} are used"
        )


def reservations_are_what_prefills_will_take(core: Scheduler) -> None:
    """Each prefill reserves the blocks that its known tokens still need; the kept sum is the sum of them."""
    total = 0
    for sequence in core.prefilling:
        total += sequence.reserved_blocks
        missing = blocks_for(sequence.num_known, core.config.block_size) - len(sequence.block_table)
        if sequence.reserved_blocks != missing:
            raise violation(
                "reservations_are_what_prefills_will_take",
                f"{sequence} reserves {sequence.reserved_blocks} blocks and lacks {missing}",
            )
    if total != core.reserved_blocks:
        raise violation(
            "reservations_are_what_prefills_will_take", f"sum {total}, kept sum {core.reserved_blocks} blocks"
        )


def ledger_is_the_sum_of_commitments(core: Scheduler) -> None:
    """The kept sum of commitments is what a recount gives: floor(min(known + watermark, end) / block size) + 1 each."""
    if core.ledger is None:
        return
    committed = [*core.view.owners(), *core.restoring, *(() if core.in_line else core.parked)]
    total = 0
    for sequence in committed:
        blocks = _commitment(core, sequence)
        total += blocks
        if not core.ledger.holds(sequence) or core.ledger.held_by(sequence) != blocks:
            raise violation(
                "ledger_is_the_sum_of_commitments",
                f"{sequence} commits {core.ledger.held_by(sequence)} blocks, should be {blocks}",
            )
    if total != core.ledger.blocks:
        raise violation("ledger_is_the_sum_of_commitments", f"recounted {total}, kept {core.ledger.blocks} blocks")


def _commitment(core: Scheduler, sequence: Sequence) -> int:
    known = sequence.num_prompt_tokens + core.view.outputs(sequence)
    end = sequence.num_prompt_tokens + sequence.max_outputs
    watermark = core.config.watermark_tokens
    return (end if watermark < 0 else min(known + watermark, end)) // core.config.block_size + 1


def batch_aggregates_are_sums(core: Scheduler) -> None:
    """The batch's sums over rows, its residue classes and its windowed sum are what a recount gives."""
    batch = core.batch
    lengths = {sequence: batch.length(sequence) for sequence in batch.rows}
    if batch.context_tokens != sum(lengths.values()):
        raise violation("batch_aggregates_are_sums", f"context {batch.context_tokens}, sum {sum(lengths.values())}")
    if sum(map(len, batch.residues)) != len(lengths):
        raise violation("batch_aggregates_are_sums", f"{sum(map(len, batch.residues))} residues of {len(lengths)} rows")
    for sequence, length in lengths.items():
        if sequence not in batch.residues[(length - batch.step) % batch.block_size]:
            raise violation("batch_aggregates_are_sums", f"{sequence} of length {length} is in another residue class")
    if batch.windowed is not None:
        window = batch.windowed.window_tokens
        found = batch.windowed.sum(len(batch), batch.step)
        tokens = sum(min(length, window) for length in lengths.values())
        if (found.tokens, found.growing_rows) != (tokens, sum(length < window for length in lengths.values())):
            raise violation("batch_aggregates_are_sums", f"windowed {found}, sum {tokens} tokens")


def newcomers_are_rows(core: Scheduler) -> None:
    """Rows announced to the device as new are in the batch and have not been in a step."""
    for sequence in core.batch.newcomers:
        if sequence not in core.batch or sequence.joined_step != core.batch.step:
            raise violation("newcomers_are_rows", f"{sequence} is announced, and no new row")


def lengths_within_limits(core: Scheduler) -> None:
    """An owner may produce at least one more token (or was asked for none) and stays within the model's length."""
    for sequence in core.view.owners():
        outputs = core.view.outputs(sequence)
        known = sequence.num_prompt_tokens + outputs
        if outputs >= max(sequence.max_outputs, 1) or known > core.config.max_model_len:
            raise violation(
                "lengths_within_limits",
                f"{sequence} has {outputs} of {sequence.max_outputs} outputs and {known} tokens of "
                f"{core.config.max_model_len}",
            )


def limits_know_the_next_end(core: Scheduler) -> None:
    """The heap of output limits names the first step at which a row reaches its own."""
    batch = core.batch
    if not batch:
        return
    next_step = min(batch.step + sequence.max_outputs - batch.outputs(sequence) for sequence in batch.rows)
    if core.limits.next_step() != next_step:
        raise violation("limits_know_the_next_end", f"heap says step {core.limits.next_step()}, rows {next_step}")


TICK_LAWS = (
    tick_is_over,
    seats_within_limit,
    containers_add_up,
    containers_agree_with_states,
    parked_own_nothing,
    tables_cover_exactly_the_tokens,
    reservations_are_what_prefills_will_take,
    ledger_is_the_sum_of_commitments,
    batch_aggregates_are_sums,
    newcomers_are_rows,
    lengths_within_limits,
    limits_know_the_next_end,
)
