"""Laws against waiting for nothing: whoever could come in, go on or return does. Decisions in words of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlab.config import AdmissionRule, Fusion
from schedlab.core.plan import Lane
from schedlab.invariants.choices import blocks_to_return
from schedlab.law import Law, When
from schedlab.policies.base import Policy
from schedlab.sequence import Sequence, State

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler

COMES_IN = Law(
    "who_could_come_in_comes_in",
    "After a plan the first in line still waits only for want of a seat, of tokens or of blocks, or for one before it.",
    When.EVENT,
    numbers=(23, 26, 40),
    scenarios=(4,),
)
STARTS = Law(
    "who_comes_in_starts_at_once",
    "A request that comes in has its first piece computed in the same tick.",
    When.TICK,
    numbers=(23, 29),
)
GOES_ON = Law(
    "the_oldest_prefill_goes_on",
    "A step for prompts computes a piece of the one that came in first, unless that has to give way.",
    When.EVENT,
    numbers=(29, 40),
    scenarios=(4,),
)
ROWS_GO_ON = Law(
    "rows_go_on",
    "A step for rows is of all of them, unless they wait for blocks that only the end of a copy will free.",
    When.EVENT,
    numbers=(35, 40),
    scenarios=(4,),
)
RETURNS = Law(
    "who_could_return_returns",
    "After a tick the first of the preempted waits only for want of a seat or blocks, or for one that ranks before it; "
    "one that the pool can never hold does not wait at all.",
    When.TICK,
    numbers=(46, 47),
    scenarios=(4,),
)


class Withheld:
    """Follows one tick: who came in with its plan, and who got a piece in its steps."""

    __slots__ = ("_admitted", "_oldest", "_served")

    def __init__(self) -> None:
        self._admitted: list[Sequence] = []
        self._served: set[Sequence] = set()
        self._oldest: Sequence | None = None

    def begin(self) -> None:
        self._admitted.clear()
        self._served.clear()

    def admitted(self, sequence: Sequence) -> None:
        self._admitted.append(sequence)

    def before_launch(self, core: Scheduler, lane: Lane) -> None:
        """Note whose turn it is in a lane for prompts."""
        self._oldest = None
        if lane in (Lane.CONTINUE, Lane.CONTINUE_DECODE, Lane.ALL):
            self._oldest = next((one for one in core.prefilling if one not in core.ending), None)

    def after_launch(self, core: Scheduler, lane: Lane, rows_at_launch: int) -> None:
        """Check that the step is of whom it should be of."""
        step, oldest = core.in_flight, self._oldest
        is_for_rows = lane in (Lane.DECODE, Lane.CONTINUE_DECODE, Lane.ALL)
        if is_for_rows and core.batch.rows and (step is None or step.decode is None) and not _rows_need_blocks(core):
            raise ROWS_GO_ON.broken(f"{len(core.batch.rows)} rows wait in lane {lane}")
        chunks = step.chunks if step is not None else ()
        self._served.update(chunk.sequence for chunk in chunks)
        if oldest is None or oldest.state is not State.PREFILLING or oldest in self._served:
            return
        if type(core.policy).compose is not Policy.compose or _rows_need_blocks(core):
            return
        tokens = core.config.max_num_batched_tokens
        tokens -= rows_at_launch if core.config.fusion is not Fusion.NONE else 0
        left = oldest.num_prompt_tokens + oldest.num_outputs - oldest.num_computed
        if tokens > 0 and (core.config.chunked_prefill or left <= tokens):
            raise GOES_ON.broken(f"{oldest} has {left} tokens left and gets none of {tokens}", oldest.request_id)

    def after_tick(self, core: Scheduler, *, someone_gave_way: bool) -> None:
        """Check who came in, and who is still preempted."""
        if not someone_gave_way and self._admitted:
            self._all_have_started(core)
        if core.parked:
            who_could_return_returns(core)

    def _all_have_started(self, core: Scheduler) -> None:
        config = core.config
        shares_steps = config.fusion is Fusion.ALL
        if shares_steps and type(core.policy).compose is not Policy.compose:
            return
        if not shares_steps and not config.chunked_prefill:
            return
        for sequence in self._admitted:
            if sequence not in self._served and sequence.state is State.PREFILLING:
                raise STARTS.broken(f"{sequence} came in and nothing of it is computed", sequence.request_id)


def _rows_need_blocks(core: Scheduler) -> bool:
    """Rows wait for blocks that copies will free, and everybody with them."""
    return core.in_flight is None and len(core.batch.growing(0)) > core.pool.free_blocks


def who_could_come_in_comes_in(core: Scheduler) -> None:
    """After a plan in which nobody gave way; for policies that leave admission to the configured rule. O(prefilling).

    The head was asked when there was as much room as now or more.
    """
    owners = len(core.batch.rows) + len(core.prefilling) + len(core.restoring)
    kind = type(core.policy)
    if owners >= core.config.max_num_seqs or kind.admit is not Policy.admit or kind.compose is not Policy.compose:
        return
    head = next(core.waiting.candidates())
    if not _fits(core, head, -(-head.num_prompt_tokens // core.config.block_size), owners):
        return
    if core.in_line and core.parked and core.policy.rank(core.parked[0]) < core.policy.rank(head):
        return
    if _has_tokens(core, head):
        raise COMES_IN.broken(f"{head} waits with {owners} seats taken", head.request_id)


def who_could_return_returns(core: Scheduler) -> None:
    """As if nothing of it were cached."""
    first, config, pool = core.parked[0], core.config, core.pool
    needed_blocks = blocks_to_return(first, config.block_size)
    if needed_blocks > pool.total_blocks:
        raise RETURNS.broken(f"{first} needs {needed_blocks} blocks of {pool.total_blocks} and waits", first.request_id)
    owners = len(core.batch.rows) + len(core.prefilling) + len(core.restoring)
    headroom_blocks = config.resume_headroom_blocks if owners else 0
    if owners >= config.max_num_seqs or needed_blocks + headroom_blocks > pool.free_blocks - core.reserved_blocks:
        return
    if core.in_line:
        if type(core.policy).admit is not Policy.admit or not _fits(core, first, needed_blocks, owners):
            return
        head = next(core.waiting.candidates(), None)
        if head is not None and core.policy.rank(head) < core.policy.rank(first):
            return
    raise RETURNS.broken(
        f"{first} needs {needed_blocks} + {headroom_blocks} blocks, {pool.free_blocks} are free, "
        f"{core.reserved_blocks} reserved, {owners} seats taken",
        first.request_id,
    )


def _fits(core: Scheduler, sequence: Sequence, needed_blocks: int, owners: int) -> bool:
    """By the configured admission rule."""
    config, pool = core.config, core.pool
    if config.admission is AdmissionRule.PROMPT:
        watermark_blocks = config.watermark_blocks if owners else 0
        return needed_blocks + watermark_blocks + core.reserved_blocks <= pool.free_blocks
    assert core.ledger is not None
    known_tokens = sequence.num_prompt_tokens + sequence.num_outputs
    end_tokens = sequence.num_prompt_tokens + sequence.max_outputs
    if config.watermark_tokens >= 0:
        end_tokens = min(end_tokens, known_tokens + config.watermark_tokens)
    committed_blocks = core.ledger.blocks + end_tokens // config.block_size + 1
    return committed_blocks <= pool.total_blocks * config.overcommit_percent // 100 or not core.ledger.blocks


def _has_tokens(core: Scheduler, head: Sequence) -> bool:
    """Has the step a token for it, or for all of it, beside rows and prefills in progress?"""
    config = core.config
    tokens = config.max_num_batched_tokens
    tokens -= len(core.batch.rows) if config.fusion is not Fusion.NONE else 0
    if config.fusion is not Fusion.ALL:
        return tokens > 0
    for one in core.prefilling:
        left = one.num_prompt_tokens + one.num_outputs - one.num_computed
        tokens -= min(left, config.max_prefill_tokens or left)
    return tokens > 0 if config.chunked_prefill else not core.prefilling and head.num_prompt_tokens <= tokens
