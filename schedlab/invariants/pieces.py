"""Why a piece of a prompt ends where it does: the rules of the configuration in words of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlab.config import Fusion
from schedlab.core.plan import Lane
from schedlab.device import Chunk
from schedlab.events import StepDone
from schedlab.law import Law, When
from schedlab.policies.base import Policy

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler

CAUSE = Law(
    "a_piece_ends_for_a_reason",
    "A chunk that leaves known tokens ends where the step or its own limit is used up, on the last block boundary "
    "before that where asked, or where a state is worth saving.",
    When.EVENT,
    numbers=(31,),
)


def pieces_end_for_a_reason(core: Scheduler, event: StepDone, lane: Lane, rows_at_launch: int) -> None:
    """For policies that give a step all tokens that it has room for.

    Rows that gave way while the step was composed had counted in its budget, or had not: both is right.
    """
    if type(core.policy).compose is not Policy.compose:
        return
    least = most = core.config.max_num_batched_tokens
    if lane is not Lane.START and core.config.fusion is not Fusion.NONE:
        least, most = least - rows_at_launch, most - event.decode_rows
    for chunk in event.chunks:
        if not chunk.samples:
            _ends_for_a_reason(core, chunk, least, most)
        least, most = least - chunk.num_tokens, most - chunk.num_tokens


def _ends_for_a_reason(core: Scheduler, chunk: Chunk, least: int, most: int) -> None:
    """The step has room for `least` to `most` tokens of it."""
    config, count, end = core.config, chunk.num_tokens, chunk.start + chunk.num_tokens
    limit = config.max_prefill_tokens
    if least <= count <= most or count == limit:
        return
    # A block boundary further on, within reach, would have been taken.
    next_boundary = count + config.block_size
    is_last_boundary = least < next_boundary or 0 < limit < next_boundary
    if config.align_chunks and end % config.block_size == 0 and is_last_boundary:
        return
    if core.snapshots is not None and end in _places_to_save(core, chunk, end):
        return
    sequence = chunk.sequence
    raise CAUSE.broken(
        f"{sequence}: {count} tokens from {chunk.start} of {sequence.num_known}, with room for {least} to {most}",
        sequence.request_id,
    )


def _places_to_save(core: Scheduler, chunk: Chunk, end: int) -> tuple[int, int]:
    """One block below the last boundary with a token behind it, and the interval boundary at or before `end`."""
    size = core.config.block_size
    last_boundary = (chunk.sequence.num_known - 1) // size * size
    interval_tokens = core.config.snapshot_interval_blocks * size
    return last_boundary - size, end - end % interval_tokens if interval_tokens else -1
