"""Attacks by the conformance scenarios: each must come out as its file says, stepped and leapt."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from schedlab.events import StepDone
from schedlab.request import FinishReason
from tests.conformance import expect_fates, expect_memory, expect_steps, harness
from tests.conformance.expectation import check
from tests.conformance.made import ask, made_case
from tests.conformance.scenario import NS_PER_MS, Case, cases, files
from tests.mutants.attack import Attack, NotAlike, NotLive

# Imported for the expectations that they register.
VOCABULARIES = (expect_fates, expect_memory, expect_steps)
# The longest scenario takes a third of these.
MOST_STEPS = 12_000
# Loads of many requests, which take seconds and expect little.
LARGE = ("D07", "D08", "M06")


class Bound:
    """Observer: a run of more steps than any scenario needs never ends."""

    def __init__(self) -> None:
        self._left = MOST_STEPS

    def on_step_done(self, event: StepDone) -> None:
        self._left -= 1
        if not self._left:
            raise NotLive(f"{MOST_STEPS} steps and no end")


def scenario_attacks() -> list[Attack]:
    """Every case that runs, those of few requests first."""
    runnable = (case for path in files() for case in cases(path) if not case.waits_for)
    by_size = sorted(runnable, key=lambda case: len(case.asks))
    chosen = [case for case in by_size if "config_error" not in case.expect and case.scenario not in LARGE]
    return [
        Attack("scenario of an id that lives", an_id_that_lives),
        *(Attack(f"scenario {case.label}", partial(attack, case)) for case in chosen),
    ]


def an_id_that_lives() -> None:
    """A request with the id of one that runs is refused, and the first goes on."""
    asks = (ask(0, 20, 9, name="A"), ask(0, 20, 9, 3 * NS_PER_MS, name="B"))
    run = harness.run(made_case(asks, {"blocks": 20}), leap=True, observers=[Bound()])
    reasons = [run.lived[name].reason for name in ("A", "B")]
    assert reasons == [FinishReason.LENGTH, FinishReason.REFUSED], f"two of one id end with {reasons}"


def attack(case: Case) -> None:
    """As the file expects, and the same log with and without leaps."""
    with tempfile.TemporaryDirectory() as folder:
        logs = [Path(folder) / "step.jsonl", Path(folder) / "leap.jsonl"]
        for leap, log in zip((False, True), logs, strict=True):
            check(harness.run(case, leap=leap, log=log, observers=[Bound()]), case.expect)
        if logs[0].read_bytes() != logs[1].read_bytes():
            raise NotAlike("the logs of the stepped and of the leapt run")
