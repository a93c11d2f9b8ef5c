"""Laws about what the scheduler keeps so that it need not count: each is what a recount gives. O(rows + preempted)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlab.law import Law, When
from schedlab.sequence import Sequence

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler

LEDGER = Law(
    "ledger_is_the_sum_of_commitments",
    "The kept sum of commitments is what a recount gives: floor(min(known + watermark, end) / block size) + 1 each.",
    When.SWEEP,
    numbers=(26,),
)
BATCH_SUMS = Law(
    "batch_aggregates_are_sums",
    "The decode batch's sums, on which costs and block needs depend, are what a recount of its rows gives.",
    When.SWEEP,
    numbers=(17,),
)
ROW_ORDER = Law(
    "rows_keep_their_order",
    "Rows of the decode batch stay in the order in which they joined, whoever leaves.",
    When.SWEEP,
    numbers=(45,),
)
NEWCOMERS = Law(
    "newcomers_are_rows",
    "A row that is announced to the device as new is in the batch and has been in no step yet.",
    When.SWEEP,
)
NEXT_END = Law(
    "limits_know_the_next_end",
    "The step at which the next row reaches its max_tokens is known, so that a run of decode steps stops there.",
    When.SWEEP,
    numbers=(15,),
)


def ledger_is_the_sum_of_commitments(core: Scheduler) -> None:
    ledger = core.ledger
    if ledger is None:
        return
    committed = [*core.view.owners(), *core.restoring, *(() if core.in_line else core.parked)]
    total = 0
    for sequence in committed:
        blocks = _commitment(core, sequence)
        total += blocks
        if not ledger.holds(sequence) or ledger.held_by(sequence) != blocks:
            raise LEDGER.broken(
                f"{sequence} commits {ledger.held_by(sequence)} blocks, should be {blocks}", sequence.request_id
            )
    if total != ledger.blocks:
        raise LEDGER.broken(f"recounted {total}, kept {ledger.blocks} blocks")


def _commitment(core: Scheduler, sequence: Sequence) -> int:
    known = sequence.num_prompt_tokens + core.view.outputs(sequence)
    end = sequence.num_prompt_tokens + sequence.max_outputs
    watermark = core.config.watermark_tokens
    return (end if watermark < 0 else min(known + watermark, end)) // core.config.block_size + 1


def batch_aggregates_are_sums(core: Scheduler) -> None:
    batch = core.batch
    lengths = {sequence: batch.length(sequence) for sequence in batch.rows}
    if batch.context_tokens != sum(lengths.values()):
        raise BATCH_SUMS.broken(f"context {batch.context_tokens}, sum {sum(lengths.values())}")
    if sum(map(len, batch.residues)) != len(lengths):
        raise BATCH_SUMS.broken(f"{sum(map(len, batch.residues))} residues of {len(lengths)} rows")
    step, size, residues = batch.step, batch.block_size, batch.residues
    for sequence, length in lengths.items():
        if sequence not in residues[(length - step) % size]:
            raise BATCH_SUMS.broken(f"{sequence} of length {length} is in another residue class", sequence.request_id)
    if batch.windowed is not None:
        window = batch.windowed.window_tokens
        found = batch.windowed.sum(len(batch), batch.step)
        tokens = sum(min(length, window) for length in lengths.values())
        if (found.tokens, found.growing_rows) != (tokens, sum(length < window for length in lengths.values())):
            raise BATCH_SUMS.broken(f"windowed {found}, sum {tokens} tokens")
    far_blocks = sum(row.window.start for row in batch.rows if row.window is not None)
    if batch.far_blocks != far_blocks:
        raise BATCH_SUMS.broken(f"{batch.far_blocks} blocks on disk, sum {far_blocks}")


def rows_keep_their_order(core: Scheduler) -> None:
    before = -1
    for row in core.batch.rows:
        if row.row_index <= before:
            raise ROW_ORDER.broken(f"{row} of index {row.row_index} stands behind index {before}", row.request_id)
        before = row.row_index


def newcomers_are_rows(core: Scheduler) -> None:
    for sequence in core.batch.newcomers:
        if sequence not in core.batch or sequence.joined_step != core.batch.step:
            raise NEWCOMERS.broken(f"{sequence} is announced, and no new row", sequence.request_id)


def limits_know_the_next_end(core: Scheduler) -> None:
    batch = core.batch
    if not batch.rows:
        return
    # Of a row, step + outputs left = joined_step + max_outputs - outputs when it joined: nothing changes in a step.
    next_step = min(
        row.joined_step + row.max_outputs - (row.joined_len - row.num_prompt_tokens + 1) for row in batch.rows
    )
    if core.limits.next_step() != next_step:
        raise NEXT_END.broken(f"kept step {core.limits.next_step()}, rows say {next_step}")


SUM_CHECKS = (
    ledger_is_the_sum_of_commitments,
    batch_aggregates_are_sums,
    rows_keep_their_order,
    newcomers_are_rows,
    limits_know_the_next_end,
)
