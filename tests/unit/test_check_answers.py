"""Policies that raise, answer with what nobody can use, change what they look at, or do not come back."""

from __future__ import annotations

import itertools
import random
import signal
import sys
import threading
import weakref
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

import pytest

from schedlab.config import SchedulerConfig
from schedlab.errors import InvariantViolation, UsageError
from schedlab.policies.base import Policy
from schedlab.policies.view import View
from schedlab.request import Request
from schedlab.sequence import Sequence, State
from schedlab.testing import Script, Session, Turn, World, constant, play
from schedlab.testing.actions import Stage
from schedlab.testing.check import check_policy
from schedlab.testing.told import told
from schedlab.testing.watchdog import NoReturn, watched

CONFIG = SchedulerConfig(max_num_seqs=3, max_num_batched_tokens=8, block_size=2, max_model_len=40)
# Three that together outgrow the pool.
CROWD = World(CONFIG, Policy, constant(1000), 8, (Session(0, (Turn(4, 9),)),) * 5)


class Raises(Policy):
    def admit(self, view: View, sequence: Sequence) -> bool:
        return 1 // view.num_active > 0


class Exits(Policy):
    def admit(self, view: View, sequence: Sequence) -> bool:
        sys.exit(0)


class Own(BaseException):
    """Not even an Exception."""


class RaisesItsOwn(Policy):
    def admit(self, view: View, sequence: Sequence) -> bool:
        raise Own("mine")


class AsksTheWrongWay(Policy):
    def make_way(self, view: View, sequence: Sequence) -> list[Sequence]:
        raise UsageError("not for me")


class StopsIteration(Policy):
    def make_way(self, view: View, sequence: Sequence) -> list[Sequence]:
        return [next(iter(()))]


class Recurses(Policy):
    def key(self, request: object) -> int:
        return self.key(request)


class SaysNothing(Policy):
    def admit(self, view: View, sequence: Sequence) -> bool:
        pass  # type: ignore[return]


class SaysHalf(Policy):
    def compose(self, view: View) -> int:
        return view.token_budget / 2  # type: ignore[return-value]


class SaysWhen(Policy):
    def stable_until_ns(self, view: View) -> int:
        return None  # type: ignore[return-value]


class Strangers(Policy):
    def make_way(self, view: View, sequence: Sequence) -> list[Sequence]:
        return [sequence]


class Twice(Policy):
    def make_way(self, view: View, sequence: Sequence) -> list[Sequence]:
        return list(view.owners())[:1] * 2


class Nobody(Policy):
    def yield_(self, view: View, candidates: Iterable[Sequence]) -> Sequence:
        return None  # type: ignore[return-value]


class NoWay(Policy):
    def give_up(self, view: View, victim: Sequence) -> str:  # type: ignore[override]
        return "somehow"


class Computes(Policy):
    def admit(self, view: View, sequence: Sequence) -> bool:
        sequence.num_computed += 1
        return super().admit(view, sequence)


class Seats(Policy):
    def admit(self, view: View, sequence: Sequence) -> bool:
        sequence.state = State.ACTIVE
        return super().admit(view, sequence)


class Empties(Policy):
    def yield_(self, view: View, candidates: Iterable[Sequence]) -> Sequence:
        victim = super().yield_(view, candidates)
        assert isinstance(candidates, list)
        candidates.clear()
        return victim


class Rewrites(Policy):
    def admit(self, view: View, sequence: Sequence) -> bool:
        object.__setattr__(view.config, "max_num_seqs", 99)
        return super().admit(view, sequence)


class RewritesAtOnce(Policy):
    def __init__(self, config: SchedulerConfig) -> None:
        super().__init__(config)
        object.__setattr__(config, "max_num_batched_tokens", 64)


class Served(Policy):
    """The more of a tenant's came in, the later the next: of those that wait already too."""

    served = 0

    def key(self, request: Request) -> int:
        return self.served

    def admit(self, view: View, sequence: Sequence) -> bool:
        self.served += 1
        return super().admit(view, sequence)


class Wanders(Policy):
    def resume_key(self, view: View, sequence: Sequence) -> int:
        return -view.now_ns


WRONG: tuple[tuple[type[Policy], str, str], ...] = (
    (Raises, "the_policy_answers", "raises ZeroDivisionError: integer division or modulo by zero (test_check_answers"),
    (Exits, "the_policy_answers", "raises SystemExit: 0 (test_check_answers.py:"),
    (RaisesItsOwn, "the_policy_answers", "the policy raises Own: mine (test_check_answers.py:"),
    (AsksTheWrongWay, "the_policy_answers", "raises UsageError: not for me (test_check_answers.py:"),
    (StopsIteration, "the_policy_answers", "raises StopIteration (test_check_answers.py:"),
    (Recurses, "the_policy_answers", "raises RecursionError"),
    (SaysNothing, "the_policy_answers", "`admit` gives None, of type NoneType; it must give True or False"),
    (SaysHalf, "the_policy_answers", "`compose` gives 4.0, of type float; it must give an int"),
    (SaysWhen, "the_policy_answers", "`stable_until_ns` gives None, of type NoneType; it must give an int"),
    (Strangers, "the_policy_answers", "which owns no seat or was named before"),
    (Twice, "the_policy_answers", "which owns no seat or was named before"),
    (Nobody, "the_policy_answers", "`yield_` gives None, of type NoneType; it must give one of the candidates"),
    (NoWay, "the_policy_answers", "`give_up` gives 'somehow', of type str; it must give one of recompute"),
    (Computes, "the_policy_only_looks", "`admit` has changed num_computed of the request from 0 to 1"),
    (Seats, "the_policy_only_looks", "`admit` has changed state of the request from pending to active"),
    (Empties, "the_policy_only_looks", "`yield_` has changed the list of candidates"),
    (Rewrites, "the_policy_only_looks", "by the end of `admit` the policy has changed the configuration: max_num_seqs"),
    (RewritesAtOnce, "the_policy_only_looks", "the configuration: max_num_batched_tokens from 8 to 64"),
    (Served, "a_key_stays", "`key` of policy custom gave (0, 0) when Sequence(0, "),
    (Served, "a_key_stays", "or override `waiting_queue` for an order that does (request 0; "),
    (Wanders, "a_key_stays", "`resume_key` of policy custom gave -"),
)


@pytest.mark.parametrize(("policy", "law", "said"), WRONG, ids=[policy.__name__ for policy, _, _ in WRONG])
def test_a_wrong_answer_is_told_by_the_question(policy: type[Policy], law: str, said: str) -> None:
    before = replace(CONFIG)
    with pytest.raises(InvariantViolation) as found:
        play(Script(replace(CROWD, policy=policy)))
    assert before == CONFIG, "the policy has the configuration of its run alone"
    assert found.value.law is not None
    assert (found.value.law.name, said in str(found.value)) == (law, True), str(found.value)


class Loops(Policy):
    def admit(self, view: View, sequence: Sequence) -> bool:
        while view.num_waiting:
            with suppress(Exception):
                self._score(view)
        return True

    def _score(self, view: View) -> int:
        return view.free_blocks


class NeverDone(Policy):
    def make_way(self, view: View, sequence: Sequence) -> list[Sequence]:
        return [owner for owner in itertools.cycle(view.owners()) if owner is sequence]


class NeverMade(Policy):
    def __init__(self, config: SchedulerConfig) -> None:
        while True:
            pass


STUCK: tuple[tuple[type[Policy], str, str], ...] = (
    (Loops, "Loops.admit (test_check_answers.py:", "in admit: "),
    (NeverDone, "NeverDone.make_way (test_check_answers.py:", "for owner in itertools.cycle"),
    (NeverMade, "NeverMade.__init__ (test_check_answers.py:", "in __init__: "),
)


@pytest.mark.parametrize(("policy", "call", "place"), STUCK, ids=[policy.__name__ for policy, _, _ in STUCK])
def test_a_call_that_does_not_return_is_ended_and_named(policy: type[Policy], call: str, place: str) -> None:
    with pytest.raises(InvariantViolation) as found:
        Stage(replace(CROWD, policy=policy), most_call_s=0.2).finish()
    assert found.value.law is not None and found.value.law.name == "every_call_returns"
    assert call in found.value.found and found.value.found.endswith("does not return")
    (note,) = found.value.__notes__
    assert (
        note.startswith("it stood at ") and "test_check_answers.py:" in note and (place in note or "_score" in note)
    ), note


def test_it_is_ended_in_any_thread_and_without_touching_signals() -> None:
    before = signal.getsignal(signal.SIGVTALRM), signal.getitimer(signal.ITIMER_VIRTUAL)
    found: list[BaseException] = []

    def run() -> None:
        try:
            Stage(replace(CROWD, policy=Loops), most_call_s=0.2).finish()
        except InvariantViolation as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    assert not thread.is_alive() and "does not return" in str(found[0])
    assert (signal.getsignal(signal.SIGVTALRM), signal.getitimer(signal.ITIMER_VIRTUAL)) == before


def test_whoever_gets_further_is_left_alone() -> None:
    """Many times the bound in all, and no call near it."""
    beats = itertools.count()
    latest = [0]
    with watched(lambda: latest[0], 0.3):
        for _ in range(400_000):
            latest[0] = next(beats)
        spin = sum(number * number for number in range(2_000_000))
        latest[0] += 1
    assert spin


def test_nothing_is_raised_after_the_end_of_a_watched_call() -> None:
    for _ in range(3):
        with pytest.raises(NoReturn), watched(lambda: 0, 0.05):
            while True:
                pass
    for _ in range(300_000):
        pass


def test_memory_that_has_run_out_is_a_call_that_does_not_return_and_is_given_back() -> None:
    kept: list[weakref.ref[Heap]] = []
    with pytest.raises(InvariantViolation, match="takes all memory that there is") as found, told():
        _pile_up(kept)
    assert found.value is not None and kept[0]() is None


class Heap(list[int]):
    """May be referred to weakly."""


def _pile_up(kept: list[weakref.ref[Heap]]) -> None:
    heap = Heap()
    kept.append(weakref.ref(heap))
    raise MemoryError


def test_the_search_for_a_small_example_of_a_stuck_call_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    _shorten(monkeypatch)
    report = check_policy(Loops, examples=100)
    assert report.error is not None and report.error.law is not None
    assert report.error.law.name == "every_call_returns"
    assert "test_check_answers.py" in report.error.__notes__[0]


def _shorten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedlab.testing.tally.MOST_CALL_S", 0.3)
    monkeypatch.setattr("schedlab.testing.tally.SHRINK_CALL_S", 0.1)
    monkeypatch.setitem(Stage.__init__.__kwdefaults__, "most_call_s", 0.3)
    monkeypatch.setattr("schedlab.testing.tally.MOST_STUCK_CALLS", 8)


@pytest.mark.parametrize("examples", [1, 30, 100])
def test_so_many_examples_are_so_many(examples: int) -> None:
    """Hypothesis begins more than it counts: some are too long to be drawn to their end."""
    assert check_policy(Policy, examples=examples).tally.num_examples == examples


def test_a_policy_that_decides_by_chance_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    class Whims(Policy):
        def admit(self, view: View, sequence: Sequence) -> bool:
            return (view.num_active == 0 or random.random() < 0.7) and super().admit(view, sequence)

    monkeypatch.setattr("schedlab.testing.check.SHRINK_TICKS", 2_000)
    error = check_policy(Whims, examples=100).error
    assert error is not None and error.law is not None
    assert error.law.name == "same_input_same_decisions", str(error)


class NeedsMore(Policy):
    def __init__(self, config: SchedulerConfig, more: int) -> None:
        super().__init__(config)


class Refuses(Policy):
    def __init__(self, config: SchedulerConfig) -> None:
        raise UsageError("not today")


@pytest.mark.parametrize(
    ("policy", "said"), [(NeedsMore, "missing 1 required positional argument: 'more'"), (Refuses, "not today")]
)
def test_a_policy_that_cannot_be_made_is_wrong_use(policy: type[Policy], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_policy(policy, examples=20)
