"""An observer that foresees: before each plan and each launch of a stepped run it works out what will come of it.

It believes no kept sum and follows the rules of scheduler.md in loops over everybody. Where somebody has to give way,
and for policies with rules of their own, it says nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from schedlab.config import ResumeRule
from schedlab.core.plan import Lane, Plan
from schedlab.core.scheduler import Scheduler
from schedlab.policies.base import Policy
from schedlab.policies.queues import FifoQueue, KeyedQueue
from schedlab.policies.slai import FrontThenShortest, Slai
from schedlab.sequence import Sequence
from tests.mutants import naive_facts as facts
from tests.mutants.naive_plan import NaivePlan
from tests.mutants.naive_rules import PARKED, NaiveRules
from tests.mutants.naive_steps import NaiveSteps, Piece


def foresee(core: Scheduler) -> None:
    """Compare from now on what happens with what should. For a core that does not leap."""
    queues, kind = (FifoQueue, KeyedQueue, FrontThenShortest), type(core.policy)
    composes = kind.compose in (Policy.compose, Slai.compose)
    if kind.admit is not Policy.admit or not composes or not isinstance(core.waiting, queues):
        return
    foresight = Foresight(core)
    for name in ("begin_tick", "give_way", "plan", "launch", "end_tick"):
        setattr(core, name, getattr(foresight, name)(getattr(core, name)))


class Foresight:
    """Wraps the phases of one core's ticks."""

    def __init__(self, core: Scheduler) -> None:
        self._core = core
        self._rules = NaiveRules(core, core.config)
        self._plan = NaivePlan(core)
        self._steps = NaiveSteps(core)
        self._someone_gave_way = False

    def begin_tick(self, inner: Any) -> Any:
        def begin() -> None:
            self._someone_gave_way = False
            inner()

        return begin

    def give_way(self, inner: Any) -> Any:
        def give(sequence: Sequence, reason: str) -> None:
            self._someone_gave_way = True
            inner(sequence, reason)

        return give

    def plan(self, inner: Any) -> Any:
        def planned() -> Plan:
            core = self._core
            expected = [] if self._someone_gave_way else self._plan.newcomers()
            self._someone_gave_way = False
            plan: Plan = inner()
            found = list(core.starting)
            self._steps.begin(found)
            if self._someone_gave_way:
                # Whom the newcomers have passed is not known any more, but for what the scheduler says.
                self._plan.passed = Counter({one: one.times_bypassed for one in core.waiting.candidates()})
                return plan
            assert found == expected, f"{found} come in, should be {expected}"
            lanes = self._plan.lanes(len(found))
            assert plan.lanes == lanes, f"lanes {plan.lanes}, should be {lanes}"
            return plan

        return planned

    def launch(self, inner: Any) -> Any:
        def launched(lane: Lane) -> Any:
            expected = None if self._core.ending else self._steps.step(lane, self._plan.composed())
            self._someone_gave_way = False
            ticket = inner(lane)
            if expected is not None and not self._someone_gave_way:
                self._compare(lane, *expected)
            return ticket

        return launched

    def end_tick(self, inner: Any) -> Any:
        def ended() -> None:
            inner()
            parked = sorted(facts.of_state(self._core, *PARKED), key=self._place_of_return)
            assert not parked or not self._could_return(parked[0]), f"{parked[0]} could return"

        return ended

    def _compare(self, lane: Lane, pieces: list[Piece], rows: list[Sequence]) -> None:
        step = self._core.in_flight
        chunks = [Piece(*chunk) for chunk in step.chunks] if step is not None else []
        assert chunks == pieces, f"{lane} has chunks {chunks}, should be {pieces}"
        found = list(step.decode.rows) if step is not None and step.decode is not None else []
        assert found == rows, f"{lane} has rows {found}, should be {rows}"

    # Who returns.

    def _place_of_return(self, one: Sequence) -> tuple[Any, int]:
        if self._core.config.resume is ResumeRule.SMALLEST:
            return facts.prompt_blocks(self._core, one), one.arrival_index
        return self._plan.rank(one)

    def _could_return(self, one: Sequence) -> bool:
        core = self._core
        headroom = core.config.resume_headroom_blocks if facts.of_state(core, *facts.SEATED) else 0
        room = facts.free_blocks(core) - facts.reserved_blocks(core)
        if not facts.free_seats(core) or facts.missing_blocks(core, one) + headroom > room:
            return False
        if not core.in_line:
            return True
        queue = self._plan.queue()
        return self._rules.admit(one) and not (queue and self._plan.rank(queue[0]) < self._plan.rank(one))
