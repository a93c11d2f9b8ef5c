"""Laws of the scheduler's choices: who comes in, who gives way, who returns."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as List
from enum import Enum
from typing import TYPE_CHECKING, Any

from schedlab.config import AdmissionRule, PreemptionMode, ResumeRule, VictimRule
from schedlab.events import Preempted
from schedlab.law import Law, When
from schedlab.policies.base import Policy
from schedlab.sequence import Sequence, State

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler

SEAT_IS_FREE = Law(
    "admission_needs_a_seat", "A request comes in only where a seat is free.", When.EVENT, numbers=(27,), scenarios=(3,)
)
OVERTAKEN = Law(
    "nobody_is_overtaken",
    "No waiting request is passed by one behind it in the policy's own order, but max_bypass times and by so many.",
    When.EVENT,
    numbers=(23, 24, 32),
    scenarios=(4,),
)
LINE = Law(
    "the_line_is_kept",
    "Where preempted and waiting requests stand in one line, none passes a preempted one that ranks before it.",
    When.EVENT,
    numbers=(24,),
    scenarios=(4,),
)
ROOM = Law(
    "admission_leaves_room",
    "After an admission the blocks that the admission rule promises are free, or the admitted request is alone.",
    When.EVENT,
    numbers=(26,),
)
VICTIM_OUTPUTS = Law(
    "victim_keeps_its_outputs",
    "A preempted request keeps the outputs that it has produced.",
    When.EVENT,
    numbers=(41, 48),
    scenarios=(5,),
)
IMMUNE = Law(
    "immune_ones_stay",
    "A request that has returned is no victim again before so many outputs while another that is not immune could go.",
    When.EVENT,
    numbers=(43, 46),
    scenarios=(4,),
)
VICTIM = Law("victim_by_rule", "The victim is the one that the configured rule names.", When.EVENT, numbers=(44,))
RETURN_ROOM = Law(
    "resume_needs_room",
    "A preempted request returns only with a free seat, and with free blocks for it and the headroom asked for.",
    When.EVENT,
    numbers=(27, 47),
    scenarios=(3,),
)
RETURN_ORDER = Law(
    "resume_in_order",
    "Preempted requests return in the order of the configured rule, or in that which the policy gives them.",
    When.EVENT,
    numbers=(47,),
    scenarios=(4,),
)


class Need(Enum):
    """What somebody gives way to."""

    TOKENS = "next tokens of rows"
    CHUNK = "a chunk, or rows of the step that is composed"
    NEWCOMER = "a newcomer"


def passed_over(core: Scheduler, sequence: Sequence) -> list[Sequence]:
    """Who waits on before a request that has just been admitted, at most as many as may."""
    limit = core.config.max_bypass
    passed: list[Sequence] = []
    for candidate in core.waiting.candidates():
        if candidate is sequence:
            return passed
        if candidate.state is State.PENDING:
            passed.append(candidate)
            if len(passed) > limit:
                raise OVERTAKEN.broken(f"{sequence} passes {len(passed)}, of them {candidate}", candidate.request_id)
    raise OVERTAKEN.broken(f"{sequence} was admitted and is no candidate", sequence.request_id)


def check_admission(core: Scheduler, sequence: Sequence, evicted: List[Sequence]) -> None:
    """Check the laws of an admission that has just happened; `evicted` had to go in this same plan."""
    if core.free_seats < 0:
        raise SEAT_IS_FREE.broken(f"{sequence} came in, {core.free_seats} seats are free", sequence.request_id)
    the_line_is_kept(core, sequence, evicted)
    admission_leaves_room(core, sequence)


def the_line_is_kept(core: Scheduler, sequence: Sequence, evicted: List[Sequence]) -> None:
    if not core.in_line:
        return
    rank = core.policy.rank(sequence)
    for parked in core.parked:
        if not core.policy.rank(parked) < rank:
            return
        if parked not in evicted:
            raise LINE.broken(f"{sequence} passes the preempted {parked}", parked.request_id)


def admission_leaves_room(core: Scheduler, sequence: Sequence) -> None:
    """For policies that leave admission to the configured rule."""
    if type(core.policy).admit is not Policy.admit:
        return
    config, pool = core.config, core.pool
    alone = len(core.batch) + len(core.prefilling) + len(core.restoring) == 1
    if config.admission is AdmissionRule.PROMPT:
        watermark = 0 if alone else config.watermark_blocks
        if core.reserved_blocks + watermark > pool.free_blocks:
            raise ROOM.broken(
                f"{sequence}: {core.reserved_blocks} blocks reserved + {watermark}, {pool.free_blocks} free",
                sequence.request_id,
            )
        return
    committed, limit = core.view.committed_blocks, pool.total_blocks * config.overcommit_percent // 100
    if committed > limit and committed != core.view.held_commitment(sequence):
        raise ROOM.broken(f"{sequence}: {committed} blocks committed of {limit}", sequence.request_id)


def check_outputs_kept(event: Preempted, outputs: int) -> None:
    """`outputs` is what the victim has produced."""
    victim = event.sequence
    if event.freed_blocks < 0 or outputs != victim.num_outputs:
        raise VICTIM_OUTPUTS.broken(f"{victim}: {victim.num_outputs} outputs, counted {outputs}", victim.request_id)


def check_victim(core: Scheduler, victim: Sequence, need: Need) -> None:
    """The configured rule chose the victim, and no immune one went before one that is not.

    Where blocks were short for a chunk, sequences of the same step may not go, so only rows of the batch are compared;
    a newcomer takes the place of rows that can be swapped out.
    """
    if type(core.policy).yield_ is not Policy.yield_:
        return
    others = list(core.view.owners() if need is Need.TOKENS else core.batch.rows)
    preference = _preference(core)
    eligible = [other for other in others if not _is_immune(core, other)] if core.config.immunity_tokens else others
    if _is_immune(core, victim):
        if eligible or need is Need.NEWCOMER:
            raise IMMUNE.broken(f"{victim} is immune and goes, {eligible} are not and stay", victim.request_id)
        eligible = others
    if eligible and (other := max(eligible, key=preference)) and preference(other) > preference(victim):
        raise VICTIM.broken(f"{victim} goes by {core.config.victim}, {other} stays", victim.request_id)


def need_of(core: Scheduler, event: Preempted) -> Need | None:
    """What a preempted one gave way to by the policy's victim rule; None if another rule took it."""
    return {"decode": Need.TOKENS, "prefill": Need.CHUNK}.get(event.reason)


def need_of_swap(core: Scheduler, *, in_plan: bool, in_launch: bool) -> Need | None:
    """The same of one that was swapped out. Where the cheapest way is taken, not every row could be swapped."""
    if not in_plan:
        return Need.CHUNK if in_launch else Need.TOKENS
    by_rule = type(core.policy).make_way is Policy.make_way and core.config.preemption is not PreemptionMode.CHEAPEST
    return Need.NEWCOMER if by_rule else None


def _preference(core: Scheduler) -> Callable[[Sequence], tuple[Any, ...]]:
    """The larger, the sooner a sequence goes."""
    if core.config.victim is VictimRule.LAST_IN:
        return lambda one: (one.admission_index,)
    if core.config.victim is VictimRule.FEWEST_OUTPUTS:
        return lambda one: (-core.view.outputs(one), -one.admission_index)
    return lambda one: (one.request.priority, one.admission_index)


def check_immunity(core: Scheduler, sequence: Sequence) -> None:
    """Of one that has just returned."""
    until = sequence.num_outputs + core.config.immunity_tokens
    if sequence.immune_until_outputs != until:
        raise IMMUNE.broken(
            f"{sequence} is immune up to {sequence.immune_until_outputs} outputs, not {until}", sequence.request_id
        )


def _is_immune(core: Scheduler, sequence: Sequence) -> bool:
    return core.config.immunity_tokens > 0 and core.view.outputs(sequence) < sequence.immune_until_outputs


def check_resume(core: Scheduler, sequence: Sequence) -> None:
    """A returning sequence has a seat, the first place among the preempted, and its blocks and headroom are free."""
    others = len(core.batch) + len(core.prefilling) + len(core.restoring) - 1
    headroom = core.config.resume_headroom_blocks if others else 0
    if core.free_seats < 0 or core.reserved_blocks + headroom > core.pool.free_blocks:
        raise RETURN_ROOM.broken(
            f"{sequence}: {core.free_seats} seats free, {core.reserved_blocks} blocks reserved + {headroom}, "
            f"{core.pool.free_blocks} free",
            sequence.request_id,
        )
    returns_in_order(core, sequence)
    the_waiting_go_first(core, sequence)


def the_waiting_go_first(core: Scheduler, sequence: Sequence) -> None:
    """In one line no waiting request ranks before one that returns."""
    head = next(core.waiting.candidates(), None) if core.in_line else None
    if head is not None and core.policy.rank(head) < core.policy.rank(sequence):
        raise LINE.broken(f"{sequence} returns before {head}, which waits", head.request_id)


def returns_in_order(core: Scheduler, sequence: Sequence) -> None:
    """No preempted one ranks before it. O(preempted): their own order is a part of what is checked."""
    place = _place_of_return(core)
    first = min(core.parked, key=place, default=sequence)
    if place(first) < place(sequence):
        raise RETURN_ORDER.broken(f"{sequence} returns before {first}", first.request_id)


def _place_of_return(core: Scheduler) -> Callable[[Sequence], Any]:
    """The configured rule in words of its own; a policy that has another rule is asked for it."""
    policy, size = core.policy, core.config.block_size
    if type(policy).resume_key is not Policy.resume_key:
        return lambda one: policy.resume_key(core.view, one)
    if core.config.resume is ResumeRule.SMALLEST:
        return lambda one: (blocks_to_return(one, size), one.arrival_index)
    if type(policy).rank is not Policy.rank:
        return policy.rank
    return lambda one: (policy.key(one.request), one.arrival_index)


def blocks_to_return(sequence: Sequence, block_size: int) -> int:
    """Of all its known tokens, without those that a window keeps on disk."""
    far_blocks = sequence.window.start if sequence.window is not None else 0
    return -(-(sequence.num_prompt_tokens + sequence.num_outputs) // block_size) - far_blocks
