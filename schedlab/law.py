"""Laws of a run: each has a name, a sentence that says what must hold, and the error that tells of its breach."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from schedlab.errors import InvariantViolation


class When(StrEnum):
    """How often a law is checked."""

    CALL = "in every call"
    EVENT = "at every event that it concerns"
    TICK = "after every tick"
    SWEEP = "for every owner of a seat, as often as ticks have earned it, and at the end"
    AUDIT = "for every block and request, as often as ticks have earned it, and at the end"
    SHADOW = "at every read and write of a device with shadow KV"


@dataclass(frozen=True, slots=True)
class Law:
    """What must hold in every run.

    Attributes:
        name: unique; a violation's message begins with it.
        sentence: what must hold, for a reader who knows schedulers and not this one.
        when: how often it is checked.
        numbers: of the invariants of scheduler.md 15 that it is a part of.
        scenarios: of the laws of scenarios.md that it is a part of.
    """

    name: str
    sentence: str
    when: When
    numbers: tuple[int, ...] = ()
    scenarios: tuple[int, ...] = ()

    @property
    def reference(self) -> str:
        """Where it is demanded."""
        parts = [("scheduler.md 15: ", self.numbers), ("scenarios.md law ", self.scenarios)]
        return ", ".join(title + ", ".join(map(str, numbers)) for title, numbers in parts if numbers)

    def broken(self, found: str, request_id: int | None = None) -> InvariantViolation:
        """The error that says so; `found` is what was seen, and `request_id` whom it concerns."""
        return InvariantViolation(found, self, request_id)
