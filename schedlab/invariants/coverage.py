"""How each of the 80 invariants of scheduler.md 15 is held: by laws at run time, by a test, or with a later feature."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from schedlab.invariants.registry import laws

NUM_INVARIANTS = 80
NUM_SCENARIO_LAWS = 8


class Held(StrEnum):
    """By what."""

    LAWS = "checked at run time"
    TEST = "shown by a test"
    LATER = "waits for"


class Coverage(NamedTuple):
    """Of one invariant: `by` names the laws, the test's file, or the feature."""

    number: int
    held: Held
    by: tuple[str, ...]


_TESTS = {
    8: "tests/conformance/test_block_pool_faults.py",
}
_ADAPTERS, _DRAFTS, _PIPELINE = "adapters", "speculative decoding", "a pipeline of steps"
_LATER = {
    14: "the server (streams)",
    28: _ADAPTERS,
    39: _ADAPTERS,
    **dict.fromkeys(range(59, 69), _DRAFTS),
    70: _PIPELINE,
    71: _PIPELINE,
    74: "a device that has tokens",
    75: "constrained output",
    76: "guards that take tokens back",
    77: "a device that has tokens",
}


def coverage() -> tuple[Coverage, ...]:
    """Of every invariant, in order."""
    return tuple(map(_covered, range(1, NUM_INVARIANTS + 1)))


def _covered(number: int) -> Coverage:
    names = tuple(law.name for law in laws() if number in law.numbers)
    if names:
        return Coverage(number, Held.LAWS, names)
    if number in _TESTS:
        return Coverage(number, Held.TEST, (_TESTS[number],))
    return Coverage(number, Held.LATER, (_LATER[number],))


def scenario_coverage() -> dict[int, tuple[str, ...]]:
    """The laws at run time that hold each of the laws of scenarios.md."""
    return {
        number: tuple(law.name for law in laws() if number in law.scenarios)
        for number in range(1, NUM_SCENARIO_LAWS + 1)
    }
