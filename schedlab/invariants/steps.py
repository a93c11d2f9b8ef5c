"""Laws of one step: budgets, lanes, order and shapes of chunks, and blocks for everything that it writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlab.config import Fusion, SchedulerConfig
from schedlab.device import Chunk
from schedlab.events import StepDone
from schedlab.law import Law, When
from schedlab.memory.blocks import blocks_for
from schedlab.sequence import Sequence

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler

BUDGETS = Law(
    "step_is_within_budgets",
    "A step computes at least one token and at most max_num_batched_tokens, for at most max_num_seqs sequences.",
    When.EVENT,
    numbers=(27, 31, 40),
    scenarios=(3,),
)
ROWS = Law(
    "rows_are_the_batch",
    "A decode step is of all rows and of nobody else, as often as it was repeated; a prefilling sequence is no row.",
    When.EVENT,
    numbers=(35,),
    scenarios=(5,),
)
LANES = Law(
    "lanes_are_as_configured",
    "A step with prefill chunks is not repeated, and shares with decode rows only where lanes are fused.",
    When.EVENT,
    numbers=(34,),
)
SHAPE = Law(
    "chunk_has_its_shape",
    "A chunk keeps its own limit, is a whole prompt where chunking is off, and ends on a block boundary where asked.",
    When.EVENT,
    numbers=(31,),
)
OLDEST_FIRST = Law(
    "the_oldest_prefill_goes_on_first",
    "Prefills in progress go on in the order in which they came in: none is left out for a later one.",
    When.EVENT,
    numbers=(23, 29),
)
WRITTEN = Law(
    "blocks_hold_what_was_written",
    "Every position that a step writes is inside its sequence's block table, and the table has no block more.",
    When.EVENT,
    numbers=(6,),
    scenarios=(1,),
)


def step_is_within_budgets(config: SchedulerConfig, event: StepDone) -> None:
    tokens = event.decode_rows + sum(chunk.num_tokens for chunk in event.chunks)
    if not 1 <= tokens <= config.max_num_batched_tokens:
        raise BUDGETS.broken(f"{tokens} tokens of {config.max_num_batched_tokens}")
    if event.decode_rows + len(event.chunks) > config.max_num_seqs:
        raise BUDGETS.broken(
            f"{event.decode_rows} rows + {len(event.chunks)} chunks of {config.max_num_seqs} sequences"
        )


def rows_are_the_batch(event: StepDone) -> None:
    batch = event.batch
    iterations = event.pace.count if event.decode_rows else 0
    if event.decode_rows not in (0, len(batch.rows)) or batch.step != event.start_step + iterations:
        raise ROWS.broken(
            f"{event.decode_rows} rows of {len(batch)}, steps {event.start_step} -> {batch.step} in {event.pace.count}"
        )
    sequences = [chunk.sequence for chunk in event.chunks]
    for sequence in sequences:
        if sequence in batch.rows or sequences.count(sequence) > 1:
            raise ROWS.broken(f"a chunk of {sequence}, which is a row or has another", sequence.request_id)
    for sequence in event.newcomers:
        if sequence not in batch.rows or sequence.joined_step != event.start_step:
            raise ROWS.broken(f"{sequence} is a newcomer and no row of its first step", sequence.request_id)


def lanes_are_as_configured(config: SchedulerConfig, event: StepDone) -> None:
    if event.chunks and event.pace.count != 1:
        raise LANES.broken(f"{len(event.chunks)} chunks in {event.pace.count} iterations")
    if event.chunks and event.decode_rows and config.fusion is Fusion.NONE:
        raise LANES.broken(f"{event.decode_rows} rows and {len(event.chunks)} chunks, no fusion")


def chunk_has_its_shape(config: SchedulerConfig, chunk: Chunk, *, is_unlimited: bool) -> None:
    """`is_unlimited`: it is the first of a newcomer that has the device for itself."""
    request_id, size = chunk.sequence.request_id, config.block_size
    if config.max_prefill_tokens and not is_unlimited and chunk.num_tokens > config.max_prefill_tokens:
        raise SHAPE.broken(f"{chunk} exceeds {config.max_prefill_tokens} tokens", request_id)
    # The first piece of a sequence begins at 0, or behind the whole blocks that a prefix cache gave it.
    first = chunk.start - chunk.start % size if config.prefix_cache else 0
    if not config.chunked_prefill and (chunk.start != first or not chunk.samples):
        raise SHAPE.broken(f"{chunk} is a piece, and chunked_prefill is off", request_id)
    end = chunk.start + chunk.num_tokens
    if config.align_chunks and not chunk.samples and end % size and end // size * size > chunk.start:
        raise SHAPE.broken(f"{chunk} ends at {end}, behind the block boundary {end // size * size}", request_id)


def the_oldest_prefill_goes_on_first(core: Scheduler, event: StepDone, *, is_first_chunk: bool) -> None:
    """`is_first_chunk`: the step is of the first chunk of one newcomer alone, which has a lane of its own."""
    if is_first_chunk and core.config.fusion is not Fusion.ALL:
        return
    going_on = iter(core.prefilling)
    last_in = -1
    for chunk in event.chunks:
        for sequence in going_on:
            if sequence.admission_index < last_in:
                raise OLDEST_FIRST.broken(f"{sequence} stands behind one that came in later", sequence.request_id)
            last_in = sequence.admission_index
            if sequence is chunk.sequence:
                break
            if sequence not in core.ending:
                raise OLDEST_FIRST.broken(
                    f"{chunk.sequence} gets {chunk.num_tokens} tokens, {sequence}, which came in before, none",
                    sequence.request_id,
                )
        else:
            raise OLDEST_FIRST.broken(
                f"{chunk.sequence} is out of line, or prefills no more", chunk.sequence.request_id
            )


def blocks_hold_what_was_written(sequence: Sequence, length: int, size: int) -> None:
    """`length`: tokens behind the last position that the step has written."""
    far_blocks = sequence.window.start if sequence.window is not None else 0
    if len(sequence.block_table) + far_blocks != blocks_for(length, size):
        raise WRITTEN.broken(
            f"{sequence}: {length} tokens in {len(sequence.block_table)} blocks, {far_blocks} more on disk",
            sequence.request_id,
        )


def check_step(core: Scheduler, event: StepDone, *, is_first_chunk: bool, is_unlimited: bool) -> None:
    """Check the laws of the step that has just ended, but for its rows. O(chunks)."""
    step_is_within_budgets(core.config, event)
    rows_are_the_batch(event)
    if not event.chunks:
        return
    lanes_are_as_configured(core.config, event)
    the_oldest_prefill_goes_on_first(core, event, is_first_chunk=is_first_chunk)
    for chunk in event.chunks:
        chunk_has_its_shape(core.config, chunk, is_unlimited=is_unlimited)
        blocks_hold_what_was_written(chunk.sequence, chunk.start + chunk.num_tokens, core.config.block_size)
