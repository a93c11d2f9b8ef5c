"""Looks at a run from the outside while it goes on: shows how far it has come, and stops it when asked to."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, NamedTuple, Self

from experiments.metrics.requests import RequestTable
from experiments.metrics.usage import Usage
from schedlab.device import FOREVER_NS
from schedlab.errors import UsageError
from schedlab.events import Refused, StepDone
from schedlab.pace import ns_to_quanta, quanta_to_ns

EVENTS_BETWEEN_LOOKS = 256
SECONDS_BETWEEN_SHOWS = 0.1
_END_QUANTA = ns_to_quanta(FOREVER_NS)


def refuse_end_of_time(now_ns: int) -> None:
    """UsageError where the simulated clock would reach the end of what it and the result files can hold."""
    if now_ns >= FOREVER_NS:
        raise UsageError(
            f"the run reaches {now_ns} ns of simulated time and 146 years ({FOREVER_NS} ns) is the end of the clock: "
            "look for a stamp, a think time or a step cost in another unit"
        )


class Stopped(Exception):
    """The run was asked to stop and has stopped between two events."""


class Progress(NamedTuple):
    """How far a run has come; `done` of `total` requests have ended or were refused, or ticks of a recording passed."""

    done: int
    total: int
    output_tokens: int
    simulated_ns: int
    wall_s: float


Show = Callable[[Progress], None]


class StopSignal:
    """While entered, the first Ctrl-C or SIGTERM only sets `is_set`, and says so; a second one interrupts at once."""

    def __init__(self) -> None:
        self.is_set = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.is_set:
            raise KeyboardInterrupt
        self.is_set = True
        # Not through sys.stderr: the signal may have come while it was being written to.
        with suppress(OSError):
            os.write(2, b"\nreplay: ending after this step; once more to end at once\n")


class Watch:
    """Observer, to be added last so that every other one has seen the event after which a run stops.

    The wall clock is looked at every `EVENTS_BETWEEN_LOOKS` events only, and nothing here bears on the run's results.
    """

    def __init__(self, requests: RequestTable, usage: Usage, total: int, stop: StopSignal, show: Show | None) -> None:
        self._requests = requests
        self._usage = usage
        self._total = total
        self._stop = stop
        self._show = show
        self._events = 0
        self._started = self._shown = time.monotonic()

    def on_refused(self, event: Refused) -> None:
        self._count()

    def on_step_done(self, event: StepDone) -> None:
        self._count()

    def _count(self) -> None:
        if self._usage.last_quanta >= _END_QUANTA:
            refuse_end_of_time(quanta_to_ns(self._usage.last_quanta))
        if self._stop.is_set:
            raise Stopped
        self._events += 1
        if self._events % EVENTS_BETWEEN_LOOKS == 0 and self._show is not None:
            self._look(self._show)

    def _look(self, show: Show) -> None:
        now = time.monotonic()
        if now - self._shown >= SECONDS_BETWEEN_SHOWS:
            self._shown = now
            usage = self._usage
            simulated_ns = quanta_to_ns(usage.last_quanta)
            show(Progress(len(self._requests), self._total, usage.output_tokens, simulated_ns, now - self._started))
