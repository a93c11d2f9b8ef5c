"""What a search for a broken law has come to: what was tried, what failed, and when it is enough."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from copy import copy
from math import inf
from typing import NamedTuple

from hypothesis import reject

from schedlab.errors import InvariantViolation, UsageError
from schedlab.testing.actions import Script, Stage, play
from schedlab.testing.coverage import PLAYED_TWICE, Coverage
from schedlab.testing.laws import CALLS_RETURN, MOST_CALL_S, SAME_INPUT
from schedlab.testing.run import Ending
from schedlab.testing.world import World

# Every so many examples one is played a second time, and must end alike.
EXAMPLES_PLAYED_ONCE = 20
# While a failure is made smaller: what an example costs beside its ticks, how many calls may not return in all, and
# the processor time that they get.
TICKS_AN_EXAMPLE = 10
MOST_STUCK_CALLS = 30
SHRINK_CALL_S = 0.5


class Fates(NamedTuple):
    """How a run ended, as far as another of the same input must end alike: ticks, time, and each request's end."""

    num_ticks: int
    now_ns: int
    endings: dict[int, Ending]

    @classmethod
    def of(cls, stage: Stage) -> Fates:
        return cls(stage.liveness.num_ticks, stage.testbed.now_ns(), stage.node.endings)


class Enough(BaseException):
    """Ends a search; no failure of the test."""


class Tally:
    """What machines have done so far. A search ends after `time_s`, or `shrink_ticks` after its first failure.

    It ends after `most_examples` too: Hypothesis does not count those that it could not draw to their end.

    The end of a search for a smaller failure is not told by the clock, so that it is the same in every run.

    Attributes:
        failure: the smallest of the runs that broke a law, and how.
        refusal: what a policy said that refused a configuration, at last.
    """

    def __init__(
        self,
        on_example: Callable[[], None] | None = None,
        time_s: float = inf,
        shrink_ticks: float = inf,
        most_examples: float = inf,
    ) -> None:
        self._on_example = on_example
        self._most_examples = most_examples
        self._ticks_left = shrink_ticks
        self._ticks_of_a_stuck_call = shrink_ticks / MOST_STUCK_CALLS
        self._until_s = time.monotonic() + time_s
        self._is_full = False
        self.coverage = Coverage()
        self.refusal = ""
        self.num_examples = 0
        self.num_rules = 0
        self.num_ticks = 0
        self.failure: tuple[Script, InvariantViolation] | None = None

    def play(self, script: Script) -> None:
        """Run a script to its end, and count it."""
        try:
            stage = self.begin_example(script.world, leap=script.leap)
        except InvariantViolation as error:
            self.note(script, error)
            raise
        try:
            stage.finish()
        except InvariantViolation as error:
            self.note(script, error)
            raise
        finally:
            self.end_example(stage)
        self.play_again(script, stage)

    def play_again(self, script: Script, stage: Stage) -> None:
        """Now and then: the same script once more, that has just been played on `stage` to its end.

        Raises:
            InvariantViolation: it does not end as before.
        """
        if self.num_examples % EXAMPLES_PLAYED_ONCE:
            return
        self.coverage.occasions[PLAYED_TWICE] += 1
        found = _what_differs(script, stage)
        if found:
            error = SAME_INPUT.broken(found)
            self.note(script, error)
            raise error

    def note(self, script: Script, error: InvariantViolation) -> None:
        """A run has broken a law."""
        if error.law is CALLS_RETURN:
            self._is_full = True
            self._ticks_left -= self._ticks_of_a_stuck_call
        if self.failure is None or _size(script) <= _size(self.failure[0]):
            self.failure = script, _alone(error)

    def begin_example(self, world: World, *, leap: bool) -> Stage:
        """Another one; it does not count where the policy refuses the configuration.

        Raises:
            Enough: the time is over, there are enough of them, or a failure has been made small enough.
            InvariantViolation: the policy cannot be made.
        """
        has_failed = self.failure is not None
        self.make_room()
        if self._ticks_left <= 0 if has_failed else self._is_enough():
            raise Enough
        self.num_examples += 1
        if self._on_example is not None:
            self._on_example()
        try:
            most_call_s = SHRINK_CALL_S if has_failed else MOST_CALL_S
            return Stage(world, leap=leap, coverage=self.coverage, most_call_s=most_call_s)
        except UsageError as error:
            self.num_examples -= 1
            self.refusal = str(error)
            reject()

    def _is_enough(self) -> bool:
        return self.num_examples >= self._most_examples or time.monotonic() > self._until_s

    def make_room(self) -> None:
        """For another run, after one that has piled up what it could, in circles that the collector has not come to."""
        if self._is_full:
            gc.collect()
            self._is_full = False

    def end_example(self, stage: Stage) -> None:
        """It is over, however it ended."""
        self.num_ticks += stage.liveness.num_ticks
        if self.failure is not None:
            self._ticks_left -= stage.liveness.num_ticks + TICKS_AN_EXAMPLE


def _alone(error: InvariantViolation) -> InvariantViolation:
    """Without its traceback, whose frames keep all that the policy has piled up, and with notes of its own."""
    kept = copy(error)
    if hasattr(error, "__notes__"):
        kept.__notes__ = list(error.__notes__)
    return kept


def _what_differs(script: Script, stage: Stage) -> str:
    """How the script ends this time, if not as on `stage`."""
    before = Fates.of(stage)
    try:
        now = Fates.of(play(script))
    except InvariantViolation as error:
        return f"a run kept every law, and a second one of the same input did not: {error}"
    for request_id, ending in before.endings.items():
        other = now.endings.get(request_id)
        if other != ending:
            return f"request {request_id} ended as {ending}, in a second run of the same input as {other}"
    if before == now:
        return ""
    return (
        f"a run took {before.num_ticks} ticks and {before.now_ns} ns, a second one of the same input {now.num_ticks} "
        f"ticks and {now.now_ns} ns"
    )


def _size(script: Script) -> tuple[int, int]:
    return len(script.actions), len(repr((script.world, script.actions)))
