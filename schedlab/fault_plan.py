"""Which faults a run gets: steps, copies and links that go wrong, a device that is lost, clients that leave."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import log1p
from random import Random
from typing import NamedTuple

from schedlab.device import CopyKind

NEVER = 1 << 62


@dataclass(frozen=True, slots=True)
class Which:
    """Which of the things that are counted from 1 on: those listed, or each with the same chance, drawn from a seed."""

    numbers: tuple[int, ...] = ()
    chance: float = 0.0
    seed: int = 0

    def in_order(self) -> Iterator[int]:
        """The numbers, rising. Of a chance, the gaps between them are drawn, so nothing is drawn for what goes well."""
        if not self.chance:
            yield from sorted(dict.fromkeys(self.numbers))
            return
        random, number = Random(self.seed), 0
        while number < NEVER:
            skipped = 0.0 if self.chance >= 1 else log1p(-random.random()) / log1p(-self.chance)
            number += 1 + int(min(skipped, NEVER))
            yield number


class Window(NamedTuple):
    """A stretch of simulated time, its end not included."""

    begin_ns: int
    end_ns: int


NO_DELAY = Window(0, 1)


@dataclass(frozen=True, slots=True)
class StepFailure:
    """Steps that fail: some of them by number, or the first one that ends after a time."""

    which: Which | None = None
    at_ns: int | None = None


@dataclass(frozen=True, slots=True)
class SlowSteps:
    """Steps that take `permille` / 1000 of their time: some by number, or all that begin in a window."""

    permille: int
    which: Which | None = None
    window: Window | None = None


@dataclass(frozen=True, slots=True)
class SlowLinks:
    """Copies that take `permille` / 1000 of their time on these links when they get them in a window."""

    permille: int
    window: Window
    kinds: tuple[CopyKind, ...]


@dataclass(frozen=True, slots=True)
class CopyFailure:
    """Copies on these links that fail, counted together in the order in which they begin."""

    which: Which
    kinds: tuple[CopyKind, ...]


@dataclass(frozen=True, slots=True)
class Departure:
    """A client that leaves: of one request at a time, or of each with a chance, some time after its arrival."""

    request_id: int | None = None
    at_ns: int = 0
    chance: float = 0.0
    seed: int = 0
    delay: Window = NO_DELAY


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """All faults of a run. Steps are the device's iterations, a repeated one counted each time.

    Attributes:
        device_losses: from the first of these on every step fails.
        disk_full: writes to the disk that end in one of these windows fail.
    """

    step_failures: tuple[StepFailure, ...] = ()
    device_losses: tuple[StepFailure, ...] = ()
    slow_steps: tuple[SlowSteps, ...] = ()
    slow_links: tuple[SlowLinks, ...] = ()
    copy_failures: tuple[CopyFailure, ...] = ()
    disk_full: tuple[Window, ...] = ()
    departures: tuple[Departure, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Is nothing planned?"""
        return self == FaultPlan()
