"""The registry of expectations: each function has the name of a key in a file's `expect` table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.conformance.recorder import Recorder

Check = Callable[[Recorder, Any], None]
CHECKS: dict[str, Check] = {}


def expectation(function: Check) -> Check:
    """Register a function under its name; it asserts that the run did what the file's value says."""
    CHECKS[function.__name__] = function
    return function


def check(run: Recorder, expected: Mapping[str, Any]) -> None:
    """Every expectation of the table.

    Raises:
        KeyError: a key that names no expectation.
    """
    for name, value in expected.items():
        CHECKS[name](run, value)
