"""Priority classes: lower first, ties in arrival order."""

from __future__ import annotations

from collections.abc import Sequence as List

from schedlab.config import AdmissionRule, ResumeRule, SchedulerConfig
from schedlab.errors import UsageError
from schedlab.policies.base import StaticPolicy
from schedlab.policies.view import View
from schedlab.request import Request
from schedlab.sequence import Sequence

MICRO = 1_000_000
NS_PER_S = 1_000_000_000


class Priority(StaticPolicy):
    """Lower priority values first.

    With `aging_per_s` a waiting request gains that much priority a second. All gain alike, so the order is a static
    key: priority + rate x arrival. With `evict` a refused request may preempt owners that are strictly less important
    by their stored class (aging does not count there), the least important and then the latest first.
    """

    name = "priority"
    # Aging bounds waiting in time, and not in how many pass meanwhile.
    may_starve = True

    def __init__(self, config: SchedulerConfig, aging_per_s: float = 0.0, evict: bool = False) -> None:
        super().__init__(config)
        if not 0 <= aging_per_s < MICRO:
            raise UsageError(f"aging_per_s is {aging_per_s}; give a rate from 0 up to {MICRO}")
        if evict and config.resume is ResumeRule.SMALLEST:
            raise UsageError(
                "evict needs resume=in_line: with resume=smallest the evicted stay committed and free nothing"
            )
        if evict and config.swap_at_admission:
            raise UsageError("evict and swap_at_admission both choose who leaves for a newcomer; leave one of them out")
        self._aging_micro = round(aging_per_s * MICRO)
        self.evict = evict

    def key(self, request: Request) -> int:
        return request.priority * MICRO * NS_PER_S + self._aging_micro * request.arrival_ns

    def make_way(self, view: View, sequence: Sequence) -> List[Sequence]:
        if not self.evict:
            return super().make_way(view, sequence)
        less_important = sorted(
            (owner for owner in view.owners() if owner.request.priority > sequence.request.priority),
            key=lambda owner: (-owner.request.priority, -owner.admission_index),
        )
        seats, blocks = view.free_seats, self._room_blocks(view)
        owners = self.config.max_num_seqs - seats
        needed_blocks = self._needed_blocks(view, sequence)
        victims: list[Sequence] = []
        for owner in less_important:
            if seats and blocks >= needed_blocks:
                break
            victims.append(owner)
            seats += 1
            blocks += self._held_blocks(view, sequence, owner)
        if len(victims) == owners:
            # Nobody would be left for whom the watermark keeps blocks free.
            blocks += self.config.watermark_blocks
        return victims if seats and blocks >= needed_blocks else ()

    def _room_blocks(self, view: View) -> int:
        if self.config.admission is AdmissionRule.COMMIT:
            return view.total_blocks * self.config.overcommit_percent // 100 - view.committed_blocks
        return view.free_blocks - view.reserved_blocks - self.config.watermark_blocks

    def _needed_blocks(self, view: View, sequence: Sequence) -> int:
        if self.config.admission is AdmissionRule.COMMIT:
            return view.commitment(sequence)
        return view.missing_blocks(sequence)

    def _held_blocks(self, view: View, sequence: Sequence, owner: Sequence) -> int:
        if self.config.admission is AdmissionRule.COMMIT:
            return view.held_commitment(owner)
        return view.room_for(sequence, owner)
