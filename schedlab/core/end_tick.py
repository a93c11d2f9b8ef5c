"""The end of a tick: retire what ended, then bring back what was preempted. Also on ticks without a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlab.core import swapping
from schedlab.request import FinishReason
from schedlab.sequence import Sequence, State

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler


def run(core: Scheduler) -> None:
    """Retire in the order of ending, compact the survivors' slots, then resume."""
    if core.ending:
        core.retire()
        if core.device.facts.wants_dense_slots:
            core.compact_slots()
    if core.parked and not core.parked_wait_on():
        _resume(core)


def _resume(core: Scheduler) -> None:
    while core.parked:
        sequence: Sequence = core.parked[0]
        if core.view.prompt_blocks(sequence) > core.pool.total_blocks:
            _end_too_large(core, sequence)
            continue
        if core.free_seats <= 0 or not _fits(core, sequence) or _is_behind_the_waiting(core, sequence):
            core.parked_refused_at = core.changes
            core.parked_refused_until_ns = core.policy.stable_until_ns(core.view)
            return
        if sequence.state is State.SWAPPED:
            swapping.restore(core, sequence)
        else:
            core.resume(sequence)


def _fits(core: Scheduler, sequence: Sequence) -> bool:
    if core.in_line and not core.policy.admit(core.view, sequence):
        return False
    headroom = core.config.resume_headroom_blocks if core.free_seats < core.config.max_num_seqs else 0
    needed_blocks = core.view.missing_blocks(sequence) + headroom
    return needed_blocks <= core.pool.free_blocks - core.reserved_blocks


def _is_behind_the_waiting(core: Scheduler, sequence: Sequence) -> bool:
    """In one line, a waiting request that ranks before the preempted one is looked at first, by the next plan."""
    if not core.in_line or not len(core.waiting):
        return False
    head = next(core.waiting.candidates())
    return core.policy.rank(head) < core.policy.rank(sequence)


def _end_too_large(core: Scheduler, sequence: Sequence) -> None:
    sequence.error = (
        f"it cannot resume: its {sequence.num_known} tokens need {core.view.prompt_blocks(sequence)} blocks, "
        f"the pool has {core.pool.total_blocks}"
    )
    core.end(sequence, FinishReason.ERROR)
