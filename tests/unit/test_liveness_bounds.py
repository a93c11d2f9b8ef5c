"""Who is passed, and by whom, while a request waits for its next token."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from schedlab.config import AdmissionRule, SchedulerConfig, VictimRule
from schedlab.errors import InvariantViolation
from schedlab.events import Admitted, Arrived, Finished
from schedlab.policies.base import Policy
from schedlab.policies.fifo import Fifo
from schedlab.policies.priority import Priority
from schedlab.policies.view import View
from schedlab.request import FinishReason
from schedlab.sequence import Sequence, State
from schedlab.testing.liveness import ROUNDS, SLACK_PASSES, Liveness, bounds_waiting
from tests.unit.sequences import waiting

CONFIG = SchedulerConfig(max_num_seqs=2)
ENOUGH = ROUNDS * CONFIG.max_num_seqs + SLACK_PASSES


def liveness(*, one_line: bool) -> Liveness:
    core: Any = SimpleNamespace(
        bus=SimpleNamespace(add=lambda observer: None),
        config=CONFIG,
        policy=Fifo(CONFIG),
        view=SimpleNamespace(missing_blocks=lambda sequence: 0, token_budget=0),
        free_seats=0,
        in_line=one_line,
        copies={},
        offloads={},
        end_tick=lambda: None,
    )
    return Liveness(core)


def idle_ticks_allowed(copies_ahead: int, copies_later: int) -> int:
    """How often a tick ends, with nobody getting further, before that is an error."""
    laws = liveness(one_line=True)
    core: Any = laws._core
    core.why_stalled = lambda: "nothing is due"
    oldest(laws, State.PREEMPTED)
    core.offloads.update(dict.fromkeys(range(copies_ahead)))
    core.end_tick()
    core.offloads.update(dict.fromkeys(range(copies_ahead + copies_later)))
    for ticks in range(1, 10_000):
        try:
            core.end_tick()
        except InvariantViolation:
            return ticks
    raise AssertionError("nobody notices")


def passes(laws: Liveness, count: int, first: int) -> None:
    """So many others come after everybody who is there; each gets a seat and ends."""
    for number in range(first, first + count):
        newcomer = waiting(number)
        laws.on_arrived(Arrived(0, newcomer))
        laws.on_admitted(Admitted(0, newcomer))
        laws.on_finished(Finished(0, newcomer, FinishReason.LENGTH))


def oldest(laws: Liveness, state: State) -> Sequence:
    sequence = waiting(0)
    laws.on_arrived(Arrived(0, sequence))
    sequence.state = state
    return sequence


def test_passes_in_another_line_do_not_count_when_it_is_back() -> None:
    laws = liveness(one_line=False)
    sequence = oldest(laws, State.PREEMPTED)
    passes(laws, 3 * ENOUGH, 1)
    sequence.state = State.PREFILLING
    passes(laws, ENOUGH, 1000)
    with pytest.raises(InvariantViolation, match=r"request 0 .*starves"):
        passes(laws, 1, 2000)


def test_in_one_line_the_preempted_are_passed_so_often_only() -> None:
    laws = liveness(one_line=True)
    oldest(laws, State.PREFILLING).state = State.PREEMPTED
    passes(laws, ENOUGH, 1)
    with pytest.raises(InvariantViolation, match=r"request 0 .*starves"):
        passes(laws, 1, 1000)


def test_every_copy_that_was_under_way_may_end_before_somebody_gets_further() -> None:
    assert idle_ticks_allowed(30, 0) == idle_ticks_allowed(0, 0) + 60


def test_copies_that_begin_while_nobody_gets_further_earn_no_time() -> None:
    assert idle_ticks_allowed(0, 30) == idle_ticks_allowed(0, 0)


class NewestGoes(Fifo):
    """Chooses its victims itself."""

    def yield_(self, view: View, candidates: Iterable[Sequence]) -> Sequence:
        return max(candidates, key=lambda sequence: sequence.arrival_index)


@pytest.mark.parametrize(
    ("policy", "overcommit_percent", "victim", "is_bounded"),
    [
        (Fifo, 100, VictimRule.FEWEST_OUTPUTS, True),
        (Fifo, 101, VictimRule.LAST_IN, True),
        (Fifo, 101, VictimRule.FEWEST_OUTPUTS, False),
        (NewestGoes, 101, VictimRule.FEWEST_OUTPUTS, True),
        (Priority, 100, VictimRule.LAST_IN, False),
    ],
)
def test_waiting_is_bounded_unless_policy_or_victim_rule_lets_some_starve(
    policy: type[Policy], overcommit_percent: int, victim: VictimRule, is_bounded: bool
) -> None:
    config = SchedulerConfig(
        max_num_seqs=2, admission=AdmissionRule.COMMIT, overcommit_percent=overcommit_percent, victim=victim
    )
    core: Any = SimpleNamespace(config=config, policy=policy(config))
    assert bounds_waiting(core) is is_bounded
