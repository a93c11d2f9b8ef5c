"""`schedlab check`: tries to make a policy break a law, and makes the smallest example of it if one breaks.

Machines do anything to it in any order; rivalries put one request beside many that come later. Both in batches, each
with a seed of its own that follows from the given one, so that the same seed gives the same examples.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from math import inf
from typing import Any, NamedTuple
from warnings import catch_warnings, simplefilter

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis.errors import Flaky, HypothesisWarning, Unsatisfiable
from hypothesis.reporting import with_reporter
from hypothesis.stateful import run_state_machine_as_test

from schedlab.config import SchedulerConfig
from schedlab.errors import InvariantViolation, UsageError
from schedlab.testing.actions import Script, play
from schedlab.testing.laws import CALLS_RETURN, SAME_INPUT
from schedlab.testing.machine import PolicyMachine, machine_for
from schedlab.testing.strategies.rivalries import rivalries
from schedlab.testing.tally import Enough, Tally
from schedlab.testing.told import told
from schedlab.testing.world import PolicyFactory, World

BATCH = 200
# One example in so many is a rivalry: it takes as long as many rules.
RIVALRY_SHARE = 20
RULES_AN_EXAMPLE = 50
# A failure is made smaller for so many ticks, about a quarter of a minute.
SHRINK_TICKS = 40_000
_SEEDS = 1_000_003


class Show(NamedTuple):
    """How far a check has come."""

    num_examples: int
    total: int
    num_rules: int
    wall_s: float


@dataclass(frozen=True)
class Report:
    """What a check came to.

    Attributes:
        error: the law that broke; None = all held.
        script: the smallest example that was found.
    """

    tally: Tally
    seed: int
    wall_s: float
    error: InvariantViolation | None = None
    script: Script | None = None


def check_policy(
    policy: PolicyFactory,
    *,
    examples: int | None = 1000,
    time_s: float | None = None,
    seed_of: int = 0,
    show: Callable[[Show], None] | None = None,
) -> Report:
    """Try so many examples, or as many as the time allows, until a law breaks.

    Raises:
        UsageError: the policy cannot be made, or refuses nearly every configuration.
    """
    _make(policy)
    attempt = _Attempt(policy, examples, time_s, seed_of, show)
    try:
        with with_reporter(_silence), catch_warnings():
            # Of Hypothesis' own report of a failure, which nobody sees.
            simplefilter("ignore", HypothesisWarning)
            attempt.run()
    except (InvariantViolation, Enough, Flaky):
        return attempt.report()
    except KeyboardInterrupt:
        # Whoever interrupts the search for a smaller failure gets the one that there is.
        if not attempt.has_failed:
            raise
        return attempt.report()
    except Unsatisfiable:
        raise UsageError(
            f"the policy refuses nearly every configuration, so it cannot be tried; it last said: {attempt.refusal}"
        ) from None
    return attempt.report()


class _Attempt:
    def __init__(
        self,
        policy: PolicyFactory,
        examples: int | None,
        time_s: float | None,
        seed_of: int,
        show: Callable[[Show], None] | None,
    ) -> None:
        self._policy = policy
        self._total = examples
        self._seed = seed_of
        self._show = show
        self._started = time.monotonic()
        self._tally = Tally(
            self._look,
            inf if time_s is None else time_s,
            SHRINK_TICKS,
            inf if examples is None else examples,
        )

    def run(self) -> None:
        batch = 0
        while not self._is_over():
            left = BATCH if self._total is None else min(BATCH, self._total - self._tally.num_examples)
            rivals = max(left // RIVALRY_SHARE, 1)
            self._run_rivalries(rivals, batch)
            if left > rivals:
                self._run_machines(left - rivals, batch)
            batch += 1

    @property
    def refusal(self) -> str:
        return self._tally.refusal

    @property
    def has_failed(self) -> bool:
        return self._tally.failure is not None

    def report(self) -> Report:
        """What it came to; a failure counts as it is when its script is played again."""
        script, error = self._tally.failure or (None, None)
        self._tally.make_room()
        if script is not None and error is not None:
            error = _confirmed(script, error)
        return Report(self._tally, self._seed, time.monotonic() - self._started, error, script)

    def _run_machines(self, count: int, batch: int) -> None:
        machine: type[PolicyMachine] = machine_for(self._policy, self._tally)
        run_state_machine_as_test(self._seeded(batch)(machine), settings=settings_for(count))

    def _run_rivalries(self, count: int, batch: int) -> None:
        def compete(world: World) -> None:
            self._tally.play(Script(world))

        test: Any = self._seeded(batch)(settings_for(count)(given(rivalries(self._policy))(compete)))
        test()

    def _seeded(self, batch: int) -> Callable[[Any], Any]:
        return seed(self._seed * _SEEDS + batch)

    def _is_over(self) -> bool:
        return self._total is not None and self._tally.num_examples >= self._total

    def _look(self) -> None:
        if self._show is not None:
            tally = self._tally
            wall_s = time.monotonic() - self._started
            self._show(Show(tally.num_examples, self._total or 0, tally.num_rules, wall_s))


def _make(policy: PolicyFactory) -> None:
    """Of one configuration, to see whether it can be made at all."""
    try:
        with told(may_refuse=True):
            policy(SchedulerConfig())
    except UsageError:
        pass
    except InvariantViolation as error:
        raise UsageError(
            f"the policy cannot be made from a SchedulerConfig alone: {error.found}; give every other parameter of its "
            "__init__ a default, and implement all that is abstract"
        ) from None


def _confirmed(script: Script, error: InvariantViolation) -> InvariantViolation:
    """What breaks when the script is played again, or that it is not the same."""
    if error.law is SAME_INPUT:
        return error
    again = _played(script)
    if again is not None and again.law is error.law is CALLS_RETURN:
        # With all its time it may run out of memory instead, or the other way round.
        return again
    if str(again) != str(error):
        return SAME_INPUT.broken(f"played again, a run that broke a law did not do so as before: {error}")
    return error


def _played(script: Script) -> InvariantViolation | None:
    try:
        play(script)
    except InvariantViolation as error:
        return error
    return None


def settings_for(count: int) -> settings:
    return settings(
        max_examples=count,
        stateful_step_count=RULES_AN_EXAMPLE,
        deadline=None,
        database=None,
        print_blob=False,
        report_multiple_bugs=False,
        verbosity=Verbosity.normal,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )


def _silence(text: object) -> None:
    """Hypothesis has its own report of a failure; the caller gets a better one."""


def versions() -> dict[str, str]:
    """Of what bears on the examples."""
    return {name: version(name) for name in ("schedlab", "hypothesis")}
