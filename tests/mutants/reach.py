"""Which lines each attack runs through: a change of a line that an attack never reaches is not found by it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

from tests.mutants.attack import Attack

Line = tuple[str, int]


def reached(attacks: Iterable[Attack], files: set[str], tell: Callable[[int], None]) -> dict[Line, list[int]]:
    """By line of `files`: the numbers of the attacks that run it. `tell` hears how many are done."""
    found: dict[Line, list[int]] = {}
    for number, attack in enumerate(attacks):
        for line in _lines(attack, files):
            found.setdefault(line, []).append(number)
        tell(number + 1)
    return found


def _lines(attack: Attack, files: set[str]) -> set[Line]:
    seen: set[Line] = set()

    def enter(frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        return note if frame.f_code.co_filename in files else None

    def note(frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        seen.add((frame.f_code.co_filename, frame.f_lineno))
        return note

    threading.settrace(enter)
    sys.settrace(enter)
    try:
        attack.run()
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
    return seen
