"""Laws of the scheduler's choices: who comes in, who gives way, who returns."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as List
from typing import TYPE_CHECKING, Any

from schedlab.config import AdmissionRule, VictimRule
from schedlab.events import IMAGE_LOST, RESET, RESTORE_FAILED, Preempted
from schedlab.invariants.violation import violation
from schedlab.policies.base import Policy
from schedlab.sequence import Sequence, State

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler


def check_admission(core: Scheduler, sequence: Sequence, evicted: List[Sequence]) -> None:
    """Check the laws of an admission that has just happened; `evicted` had to go in this same plan."""
    if core.free_seats < 0:
        raise violation("admission_needs_a_seat", f"{sequence} came in, {core.free_seats} seats are free")
    nobody_is_overtaken(core, sequence)
    the_line_is_kept(core, sequence, evicted)
    admission_leaves_room(core, sequence)


def nobody_is_overtaken(core: Scheduler, sequence: Sequence) -> None:
    """Nobody who stands before an admitted request waits on, but as `max_bypass` allows."""
    limit, passed = core.config.max_bypass, 0
    for candidate in core.waiting.candidates():
        if candidate is sequence:
            return
        if candidate.state is State.PENDING:
            passed += 1
            if passed > limit or candidate.times_bypassed >= limit:
                raise violation(
                    "nobody_is_overtaken", f"{sequence} passes {candidate}, passed {candidate.times_bypassed} times"
                )
    raise violation("nobody_is_overtaken", f"{sequence} was admitted and is no candidate")


def the_line_is_kept(core: Scheduler, sequence: Sequence, evicted: List[Sequence]) -> None:
    """In one line, no request passes a preempted sequence that ranks before it."""
    if not core.in_line:
        return
    rank = core.policy.rank(sequence)
    for parked in core.parked:
        if not core.policy.rank(parked) < rank:
            return
        if parked not in evicted:
            raise violation("the_line_is_kept", f"{sequence} passes the preempted {parked}")


def admission_leaves_room(core: Scheduler, sequence: Sequence) -> None:
    """What the admission rule promises holds afterwards, or the admitted one is alone."""
    if type(core.policy).admit is not Policy.admit:
        return
    config, pool = core.config, core.pool
    alone = len(core.batch) + len(core.prefilling) + len(core.restoring) == 1
    if config.admission is AdmissionRule.PROMPT:
        watermark = 0 if alone else config.watermark_blocks
        if core.reserved_blocks + watermark > pool.free_blocks:
            raise violation(
                "admission_leaves_room",
                f"{sequence}: {core.reserved_blocks} blocks reserved + {watermark}, {pool.free_blocks} free",
            )
        return
    committed, limit = core.view.committed_blocks, pool.total_blocks * config.overcommit_percent // 100
    if committed > limit and committed != core.view.held_commitment(sequence):
        raise violation("admission_leaves_room", f"{sequence}: {committed} blocks committed of {limit}")


def check_victim(core: Scheduler, event: Preempted, outputs: int) -> None:
    """The configured rule chose the victim, and no immune one went before one that is not.

    `outputs` is what the victim has produced. Where blocks were short for a chunk, sequences of the same step may not
    go, so only rows of the batch are compared.
    """
    if event.freed_blocks < 0 or outputs != event.sequence.num_outputs:
        raise violation(
            "victim_keeps_its_outputs", f"{event.sequence}: {event.sequence.num_outputs}, counted {outputs}"
        )
    nobody_chose = event.reason in ("priority", IMAGE_LOST, RESTORE_FAILED, RESET)
    if nobody_chose or type(core.policy).yield_ is not Policy.yield_:
        return
    others = list(core.view.owners() if event.reason == "decode" else core.batch.rows)
    victim, preference = event.sequence, _preference(core)
    eligible = [other for other in others if not _is_immune(core, other)]
    if _is_immune(core, victim):
        if eligible:
            raise violation("immune_ones_stay", f"{victim} is immune and goes, {eligible} are not and stay")
        eligible = others
    for other in eligible:
        if preference(other) > preference(victim):
            raise violation("victim_by_rule", f"{victim} goes by {core.config.victim}, {other} stays")


def _preference(core: Scheduler) -> Callable[[Sequence], tuple[Any, ...]]:
    """The larger, the sooner a sequence goes."""
    if core.config.victim is VictimRule.LAST_IN:
        return lambda one: (one.admission_index,)
    if core.config.victim is VictimRule.FEWEST_OUTPUTS:
        return lambda one: (-core.view.outputs(one), -one.admission_index)
    return lambda one: (one.request.priority, one.admission_index)


def _is_immune(core: Scheduler, sequence: Sequence) -> bool:
    return core.config.immunity_tokens > 0 and core.view.outputs(sequence) < sequence.immune_until_outputs


def check_resume(core: Scheduler, sequence: Sequence) -> None:
    """A returning sequence has a seat, the first place among the preempted, and its blocks and headroom are free."""
    others = len(core.batch) + len(core.prefilling) + len(core.restoring) - 1
    headroom = core.config.resume_headroom_blocks if others else 0
    if core.free_seats < 0 or core.reserved_blocks + headroom > core.pool.free_blocks:
        raise violation(
            "resume_needs_room",
            f"{sequence}: {core.free_seats} seats free, {core.reserved_blocks} blocks reserved + {headroom}, "
            f"{core.pool.free_blocks} free",
        )
    key = core.policy.resume_key(core.view, sequence)
    if core.parked and core.policy.resume_key(core.view, core.parked[0]) < key:
        raise violation("resume_in_order", f"{sequence} returns before {core.parked[0]}")
