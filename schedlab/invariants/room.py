"""Laws of how room is made: not for nobody, not by more than needed, and not while what has ended holds some."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlab.config import AdmissionRule, Fusion, SchedulerConfig
from schedlab.law import Law, When
from schedlab.policies.base import Policy
from schedlab.policies.priority import Priority
from schedlab.sequence import Sequence

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler
    from schedlab.policies.view import View

ENDED_FIRST = Law(
    "the_ended_leave_before_anybody_gives_way",
    "Nobody gives way while a request that has ended still holds its blocks.",
    When.EVENT,
    numbers=(37,),
    scenarios=(4,),
)
NOT_BESIDE = Law(
    "nobody_comes_in_where_rows_gave_way",
    "A plan before which rows had to give way to others' next tokens lets nobody in.",
    When.EVENT,
    numbers=(24, 43),
)
GATE = Law(
    "a_closed_gate_lets_nobody_in",
    "While the policy or the rows leave the next step no token for prompts, nobody comes in.",
    When.EVENT,
    numbers=(33,),
)
LEFT_OVER = Law(
    "newcomers_take_what_prompts_in_progress_leave",
    "Where newcomers share the step, the prompts in progress and those that came in before have their tokens of it "
    "first: one comes in only if a token is left for it; all of its own, where prompts go whole.",
    When.EVENT,
    numbers=(29, 31, 33),
)
FOR_SOMEBODY = Law(
    "who_makes_way_does_so_for_somebody",
    "Where owners leave for a newcomer, it comes in; and all of them were needed.",
    When.EVENT,
    numbers=(42, 43),
    scenarios=(4,),
)
NEEDED = Law(
    "nobody_gives_way_without_need",
    "Nobody gives way to the next tokens of rows while there are free blocks for all of them.",
    When.EVENT,
    numbers=(43,),
    scenarios=(4,),
)


class Room:
    """Follows one tick: who gave way before its plan and in it, and what the policy gave it.

    Attributes:
        someone_gave_way: to anybody, in this tick.
    """

    __slots__ = (
        "_composed",
        "_gave_way_before",
        "_is_planning",
        "_last_gain",
        "_left_tokens",
        "_room_blocks",
        "someone_gave_way",
    )

    def __init__(self) -> None:
        self._composed = 0
        self._gave_way_before = False
        self._is_planning = False
        # Free blocks that nobody has reserved, when somebody left or came in; and what the last one who left for a
        # newcomer that is not in yet has added to them.
        self._room_blocks = 0
        self._last_gain: int | None = None
        # What this plan's newcomers leave of the step that they share, once there is one.
        self._left_tokens: int | None = None
        self.someone_gave_way = False

    def attach(self, core: Scheduler) -> None:
        """Hear what the policy answers."""
        policy = core.policy
        compose = policy.compose

        def heard(view: View) -> int:
            self._composed = compose(view)
            return self._composed

        setattr(policy, "compose", heard)  # noqa: B010 - the policy's own answer, heard on its way

    def begin(self) -> None:
        self.someone_gave_way = self._gave_way_before = self._is_planning = False
        self._last_gain = self._left_tokens = None

    def before_plan(self, core: Scheduler) -> None:
        self._is_planning = True
        self._room_blocks = core.pool.free_blocks - core.reserved_blocks

    @property
    def is_planning(self) -> bool:
        """Does whoever gives way now do so for a newcomer?"""
        return self._is_planning

    def gives_way(self, core: Scheduler, sequence: Sequence, *, to_somebody: bool) -> None:
        """Somebody has left its seat to somebody, or lost what it has computed in another way."""
        if core.ending and to_somebody:
            raise ENDED_FIRST.broken(
                f"{sequence} gives way while {next(iter(core.ending))} has ended and holds blocks", sequence.request_id
            )
        self.someone_gave_way = True
        self._gave_way_before |= to_somebody and not self._is_planning
        if self._is_planning:
            before, self._room_blocks = self._room_blocks, core.pool.free_blocks - core.reserved_blocks
            self._last_gain = self._room_blocks - before

    def gave_blocks(self, core: Scheduler, sequence: Sequence, blocks: int) -> None:
        """At most so many came free as it gave way to the next tokens of rows; perhaps it was one of these rows.

        What it leaves in a prefix cache may be there already and free others.
        """
        free_before = core.pool.free_blocks - blocks
        needed_blocks = len(core.batch.growing(0)) + 1
        if not core.config.prefix_cache and needed_blocks <= free_before:
            raise NEEDED.broken(
                f"{sequence} gives way, {free_before} blocks were free and {needed_blocks} enough", sequence.request_id
            )

    def comes_in(self, core: Scheduler, sequence: Sequence) -> None:
        if self._gave_way_before:
            raise NOT_BESIDE.broken(f"{sequence} comes in", sequence.request_id)
        if min(self._composed, core.token_budget) <= 0:
            raise GATE.broken(
                f"{sequence} comes in with {self._composed} tokens, {core.token_budget} beside the rows",
                sequence.request_id,
            )
        if core.config.fusion is Fusion.ALL:
            self._takes_tokens(core, sequence)
        gain, self._last_gain = self._last_gain, None
        self._room_blocks = core.pool.free_blocks - core.reserved_blocks
        if gain is not None:
            self._was_needed(core, sequence, gain)

    def _takes_tokens(self, core: Scheduler, newcomer: Sequence) -> None:
        """O(1), and O(prefills in progress) for the first newcomer of a plan."""
        tokens = self._left_tokens
        if tokens is None:
            tokens = min(self._composed, core.token_budget)
            for one in core.prefilling:
                if one is not newcomer:
                    tokens -= _piece(core.config, one, tokens)
        piece = _piece(core.config, newcomer, tokens)
        needed = 1 if core.config.chunked_prefill else _left_of(newcomer)
        if tokens < needed:
            raise LEFT_OVER.broken(
                f"{newcomer} comes in with {tokens} tokens left, it needs {needed}", newcomer.request_id
            )
        self._left_tokens = tokens - piece

    def after_plan(self, core: Scheduler) -> None:
        self._is_planning = False
        if self._last_gain is not None and _is_built_in(core.policy):
            raise FOR_SOMEBODY.broken("owners left for a newcomer that has not come in")

    def _was_needed(self, core: Scheduler, newcomer: Sequence, gain: int) -> None:
        """Who left last for the newcomer? What it leaves in a prefix cache may be of more use than foreseen."""
        config = core.config
        if not _is_built_in(core.policy) or config.admission is not AdmissionRule.PROMPT or config.prefix_cache:
            return
        spare_blocks = self._room_blocks - config.watermark_blocks
        if core.free_seats > 0 and spare_blocks >= gain:
            raise FOR_SOMEBODY.broken(
                f"one with {gain} blocks left for {newcomer}, and {spare_blocks} blocks are to spare",
                newcomer.request_id,
            )


def _left_of(sequence: Sequence) -> int:
    return sequence.num_prompt_tokens + sequence.num_outputs - sequence.num_computed


def _piece(config: SchedulerConfig, sequence: Sequence, tokens: int) -> int:
    """What a prompt in progress takes of so many tokens: a piece, or where it must go whole and cannot, all of them."""
    if not config.chunked_prefill:
        return min(_left_of(sequence), tokens)
    return min(_left_of(sequence), tokens, config.max_prefill_tokens or tokens)


def _is_built_in(policy: Policy) -> bool:
    return type(policy).make_way in (Policy.make_way, Priority.make_way) and type(policy).admit is Policy.admit
