"""Policies with a defect each: `schedlab check` names the law, and its example shows it again."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

import pytest

from schedlab.errors import InvariantViolation
from schedlab.policies.base import Policy, StaticPolicy
from schedlab.policies.view import View
from schedlab.request import Request
from schedlab.sequence import Sequence
from schedlab.testing import loads, play
from schedlab.testing.check import check_policy
from schedlab.testing.script_file import dumps


class ShortestFirst(StaticPolicy):
    def key(self, request: Request) -> int:
        return request.prompt.num_tokens


class LastFirst(StaticPolicy):
    def key(self, request: Request) -> int:
        return -request.arrival_ns


class Divides(Policy):
    def admit(self, view: View, sequence: Sequence) -> bool:
        return 10 / (view.num_waiting - 1) is not None and super().admit(view, sequence)


class Forgets(Policy):
    def yield_(self, view: View, candidates: Iterable[Sequence]) -> Sequence:
        return None  # type: ignore[return-value]


class NeverTwo(Policy):
    def admit(self, view: View, sequence: Sequence) -> bool:
        return view.num_waiting < 2 and super().admit(view, sequence)


class GivesNothing(Policy):
    def compose(self, view: View) -> int:
        return 0 if view.num_prefilling else super().compose(view)


DEFECTS: tuple[tuple[type[Policy], str, str], ...] = (
    (ShortestFirst, "waiting_is_bounded", "may_starve = True"),
    (LastFirst, "waiting_is_bounded", "starves"),
    (Divides, "the_policy_answers", "ZeroDivisionError: division by zero (test_check_policies.py:"),
    (Forgets, "the_policy_answers", "`yield_` gives None, of type NoneType; it must give one of the candidates"),
    (NeverTwo, "something_is_due", "refuses it"),
    (GivesNothing, "something_is_due", "gives 0 prefill tokens"),
)


@pytest.mark.parametrize(("policy", "law", "said"), DEFECTS, ids=[policy.__name__ for policy, _, _ in DEFECTS])
def test_a_defect_is_told_by_its_law_with_an_example_that_shows_it_again(
    policy: type[Policy], law: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedlab.testing.check.SHRINK_TICKS", 6_000)
    report = check_policy(policy, examples=300)
    assert report.error is not None and report.error.law is not None and report.script is not None
    assert (report.error.law.name, said in str(report.error)) == (law, True), str(report.error)
    with pytest.raises(InvariantViolation) as again:
        play(loads(dumps(report.script, "any"), policy))
    assert str(again.value) == str(report.error)


def test_who_says_that_it_may_starve_is_not_asked_to_bound_waiting() -> None:
    class Declares(ShortestFirst):
        may_starve = True

    assert check_policy(Declares, examples=60).error is None


def test_a_policy_with_whims_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count()

    class Whims(Policy):
        def admit(self, view: View, sequence: Sequence) -> bool:
            if next(calls) == 200:
                raise RuntimeError("not today")
            return super().admit(view, sequence)

    monkeypatch.setattr("schedlab.testing.check.SHRINK_TICKS", 6_000)
    error = check_policy(Whims, examples=300).error
    assert error is not None and error.law is not None
    assert error.law.name == "same_input_same_decisions"
