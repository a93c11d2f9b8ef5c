"""The rules of the built-in policies, decided anew from what a scheduler's state comes to."""

from __future__ import annotations

from collections.abc import Sequence as List

from schedlab.config import AdmissionRule, PreemptionMode, ResumeRule, SchedulerConfig, VictimRule
from schedlab.core.scheduler import Scheduler
from schedlab.memory.swap import Tier
from schedlab.sequence import Sequence, State
from tests.mutants import naive_facts as facts

PARKED = (State.PREEMPTED, State.SWAPPED)


class NaiveRules:
    """What a policy with the rules of `config` should answer. It looks at everybody each time.

    Args:
        evicts: by priority classes, where a refused request makes less important owners leave.
    """

    def __init__(self, core: Scheduler, config: SchedulerConfig, *, evicts: bool = False) -> None:
        self._core = core
        self._config = config
        self._evicts = evicts

    def compose(self) -> int:
        return facts.token_budget(self._core)

    def admit(self, sequence: Sequence) -> bool:
        core, config = self._core, self._config
        if config.admission is AdmissionRule.COMMIT:
            committed = facts.committed_blocks(core)
            return not committed or committed + facts.commitment(core, sequence) <= self._allowed_blocks()
        kept_back = config.watermark_blocks if facts.of_state(core, *facts.SEATED) else 0
        return facts.missing_blocks(core, sequence) + kept_back <= self._room_blocks()

    def yield_(self, candidates: List[Sequence]) -> Sequence:
        is_immune = self._config.immunity_tokens and self._is_fresh
        eligible = [one for one in candidates if not (is_immune and is_immune(one))]
        return min(eligible or candidates, key=self._place_to_go)

    def give_up(self, victim: Sequence) -> PreemptionMode:
        core, mode = self._core, self._config.preemption
        if victim.state is not State.ACTIVE:
            return PreemptionMode.RECOMPUTE
        if mode is not PreemptionMode.CHEAPEST:
            return mode
        ways = [(facts.recompute_ns(core, victim), 0, PreemptionMode.RECOMPUTE)]
        for number, (tier, way) in enumerate(((Tier.HOST, PreemptionMode.HOST), (Tier.DISK, PreemptionMode.DISK)), 1):
            cost_ns = facts.swap_ns(core, victim, tier)
            if cost_ns is not None:
                ways.append((cost_ns, number, way))
        return min(ways)[2]

    def make_way(self, newcomer: Sequence) -> list[Sequence]:
        if self._evicts:
            return self._evicted(newcomer)
        return self._swapped(newcomer) if self._config.swap_at_admission else []

    def resume_key(self, sequence: Sequence) -> tuple[int, ...]:
        """Of classes without a key of their own."""
        smallest = self._config.resume is ResumeRule.SMALLEST
        first = facts.prompt_blocks(self._core, sequence) if smallest else 0
        return first, sequence.arrival_index

    def _swapped(self, newcomer: Sequence) -> list[Sequence]:
        """The fewest rows in the order in which they go, none of them immune, whose images have room together."""
        core, leaving = self._core, list[Sequence]()
        if facts.of_state(core, *PARKED) or not facts.free_seats(core):
            return []
        rows = [row for row in facts.rows(core) if not self._is_fresh(row)]
        able = [row for row in rows if self.give_up(row) is not PreemptionMode.RECOMPUTE]
        needed = facts.missing_blocks(core, newcomer) + self._config.watermark_blocks
        for row in [None, *sorted(able, key=self._place_to_go)]:
            leaving += [row] if row is not None else []
            if needed <= self._room_blocks() + sum(facts.room_for(core, newcomer, one) for one in leaving):
                return leaving if facts.fits_together(core, leaving) else []
        return []

    def _evicted(self, newcomer: Sequence) -> list[Sequence]:
        """The fewest of those that are less important, the least and the latest first, behind whom it could come in."""
        core = self._core
        owners = [*facts.prefilling(core), *facts.rows(core)]
        lesser = [one for one in owners if one.request.priority > newcomer.request.priority]
        lesser.sort(key=lambda one: (-one.request.priority, -one.admission_index))
        for count in range(len(lesser) + 1):
            if facts.free_seats(core) + count > 0 and self._has_room(newcomer, lesser[:count]):
                return lesser[:count]
        return []

    def _has_room(self, newcomer: Sequence, leaving: list[Sequence]) -> bool:
        core = self._core
        if self._config.admission is AdmissionRule.COMMIT:
            committed = facts.committed_blocks(core) - sum(facts.commitment(core, one) for one in leaving)
            return committed + facts.commitment(core, newcomer) <= self._allowed_blocks()
        is_alone = len(leaving) == len(facts.of_state(core, *facts.SEATED))
        room = self._room_blocks() + sum(facts.room_for(core, newcomer, one) for one in leaving)
        kept_back = 0 if is_alone else self._config.watermark_blocks
        return facts.missing_blocks(core, newcomer) + kept_back <= room

    def _room_blocks(self) -> int:
        return facts.free_blocks(self._core) - facts.reserved_blocks(self._core)

    def _allowed_blocks(self) -> int:
        return self._core.pool.total_blocks * self._config.overcommit_percent // 100

    def _is_fresh(self, one: Sequence) -> bool:
        """Has it returned so lately that it is immune?"""
        return facts.outputs(self._core, one) < one.immune_until_outputs

    def _place_to_go(self, one: Sequence) -> tuple[int, int]:
        """Who goes first has the least."""
        if self._config.victim is VictimRule.LAST_IN:
            return 0, -one.admission_index
        if self._config.victim is VictimRule.FEWEST_OUTPUTS:
            return facts.outputs(self._core, one), one.admission_index
        return -one.request.priority, -one.admission_index
