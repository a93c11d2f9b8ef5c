"""Why a piece of a prompt ends where it does: the rules of the configuration in words of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

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


class Launch(NamedTuple):
    """What there was as a step was asked for.

    Attributes:
        is_idle: it is the lane of a newcomer's first chunk, and nobody else has a use for the device.
    """

    lane: Lane
    num_rows: int
    is_idle: bool

    @classmethod
    def of(cls, core: Scheduler, lane: Lane) -> Launch:
        """Of a launch that is about to begin."""
        rows = core.batch.rows
        is_idle = lane is Lane.START and not rows and all(one in core.starting for one in core.prefilling)
        return cls(lane, len(rows), is_idle)


def pieces_end_for_a_reason(core: Scheduler, event: StepDone, launch: Launch) -> None:
    """For policies that give a step all tokens that it has room for.

    Rows that gave way while the step was composed had counted in its budget, or had not: both is right.
    """
    if type(core.policy).compose is not Policy.compose:
        return
    least = most = core.config.max_num_batched_tokens
    limit = 0 if launch.is_idle else core.config.max_prefill_tokens
    if launch.lane is not Lane.START and core.config.fusion is not Fusion.NONE:
        least, most = least - launch.num_rows, most - event.decode_rows
    for chunk in event.chunks:
        if not chunk.samples:
            _ends_for_a_reason(core, chunk, least, most, limit)
        least, most = least - chunk.num_tokens, most - chunk.num_tokens


def _ends_for_a_reason(core: Scheduler, chunk: Chunk, least: int, most: int, limit: int) -> None:
    """The step has room for `least` to `most` tokens of it, and itself a limit if there is one."""
    config, count, end = core.config, chunk.num_tokens, chunk.start + chunk.num_tokens
    if least <= count <= most or (limit and count == limit):
        return
    # A block boundary further on, within reach, would have been taken.
    next_boundary = count + config.block_size
    is_last_boundary = least < next_boundary or 0 < limit < next_boundary
    if config.align_chunks and end % config.block_size == 0 and is_last_boundary:
        return
    if _is_worth_saving(core, chunk, end):
        return
    sequence = chunk.sequence
    raise CAUSE.broken(
        f"{sequence}: {count} tokens from {chunk.start} of {sequence.num_known}, with room for {least} to {most}",
        sequence.request_id,
    )


def _is_worth_saving(core: Scheduler, chunk: Chunk, end: int) -> bool:
    """Is it one block below the last boundary with a token behind it, or an interval boundary; and may it be saved?"""
    config, size = core.config, core.config.block_size
    if core.snapshots is None or not config.snapshot_slots or end < max(config.snapshot_min_tokens, 1) or end % size:
        return False
    last_boundary = (chunk.sequence.num_known - 1) // size * size
    interval_tokens = config.snapshot_interval_blocks * size
    return end == last_boundary - size or (interval_tokens > 0 and end % interval_tokens == 0)
