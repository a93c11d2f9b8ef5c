"""Laws of one step: budgets, lanes, chunk shapes, and blocks for everything that it writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlab.config import Fusion, SchedulerConfig
from schedlab.device import Chunk
from schedlab.events import StepDone
from schedlab.invariants.violation import violation
from schedlab.memory.blocks import blocks_for

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler


def check_step(core: Scheduler, event: StepDone) -> None:
    """Check the laws of the step that has just ended. O(rows + chunks)."""
    step_is_within_budgets(core.config, event)
    rows_are_the_batch(core, event)
    lanes_are_as_configured(core.config, event)
    for chunk in event.chunks:
        chunk_has_its_shape(core, chunk, event)
    blocks_hold_what_was_written(core, event)


def step_is_within_budgets(config: SchedulerConfig, event: StepDone) -> None:
    """Tokens of a step, decode rows included, are at most `max_num_batched_tokens`; rows at most `max_num_seqs`."""
    tokens = event.decode_rows + sum(chunk.num_tokens for chunk in event.chunks)
    if not 1 <= tokens <= config.max_num_batched_tokens:
        raise violation("step_is_within_budgets", f"{tokens} tokens of {config.max_num_batched_tokens}")
    if event.decode_rows + len(event.chunks) > config.max_num_seqs:
        raise violation("step_is_within_budgets", f"{event.decode_rows} rows + {len(event.chunks)} chunks")


def rows_are_the_batch(core: Scheduler, event: StepDone) -> None:
    """A decode step is of all rows, and of each as often as it has iterations; a chunk's sequence is no row."""
    batch = event.batch
    iterations = event.pace.count if event.decode_rows else 0
    if event.decode_rows not in (0, len(batch)) or batch.step != event.start_step + iterations:
        raise violation(
            "rows_are_the_batch",
            f"{event.decode_rows} rows of {len(batch)}, steps {event.start_step} -> {batch.step} in {event.pace.count}",
        )
    sequences = [chunk.sequence for chunk in event.chunks]
    if len(dict.fromkeys(sequences)) != len(sequences) or any(sequence in batch for sequence in sequences):
        raise violation("rows_are_the_batch", f"chunks of {sequences} beside {len(batch)} rows")
    for sequence in event.newcomers:
        if sequence not in batch or sequence.joined_step != event.start_step:
            raise violation("rows_are_the_batch", f"{sequence} is a newcomer and no row of its first step")


def lanes_are_as_configured(config: SchedulerConfig, event: StepDone) -> None:
    """A step with chunks is not repeated; only fused lanes share a step."""
    if event.chunks and event.pace.count != 1:
        raise violation("lanes_are_as_configured", f"{len(event.chunks)} chunks in {event.pace.count} iterations")
    if event.chunks and event.decode_rows and config.fusion is Fusion.NONE:
        raise violation(
            "lanes_are_as_configured", f"{event.decode_rows} rows and {len(event.chunks)} chunks, no fusion"
        )


def chunk_has_its_shape(core: Scheduler, chunk: Chunk, event: StepDone) -> None:
    """Limits of a chunk: its own budget, whole prompts where chunks are off, block boundaries where they are asked."""
    config = core.config
    alone = len(event.chunks) == 1 and not event.decode_rows
    if config.max_prefill_tokens and not alone and chunk.num_tokens > config.max_prefill_tokens:
        raise violation("chunk_has_its_shape", f"{chunk} exceeds {config.max_prefill_tokens} tokens")
    if not config.chunked_prefill and (chunk.start != cached_tokens(core, chunk) or not chunk.samples):
        raise violation("chunk_has_its_shape", f"{chunk} is a piece, and chunked_prefill is off")
    end = chunk.start + chunk.num_tokens
    if config.align_chunks and not chunk.samples and end % config.block_size:
        boundary = end // config.block_size * config.block_size
        if boundary > chunk.start:
            raise violation("chunk_has_its_shape", f"{chunk} ends at {end}, behind the block boundary {boundary}")


def cached_tokens(core: Scheduler, chunk: Chunk) -> int:
    """Where the first piece of a sequence may begin: at 0, or behind the whole blocks that a prefix cache gave it."""
    return chunk.start - chunk.start % core.config.block_size if core.config.prefix_cache else 0


def blocks_hold_what_was_written(core: Scheduler, event: StepDone) -> None:
    """Every position written is inside its sequence's table, and the table has no block more."""
    size = core.config.block_size
    lengths = [(chunk.sequence, chunk.start + chunk.num_tokens) for chunk in event.chunks]
    if event.decode_rows:
        lengths += [(sequence, event.batch.length(sequence)) for sequence in event.batch.rows]
    for sequence, length in lengths:
        far_blocks = sequence.window.start if sequence.window is not None else 0
        if len(sequence.block_table) + far_blocks != blocks_for(length, size):
            raise violation(
                "blocks_hold_what_was_written",
                f"{sequence}: {length} tokens in {len(sequence.block_table)} blocks, {far_blocks} more on disk",
            )
