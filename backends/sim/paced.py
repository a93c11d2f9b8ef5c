"""The simulated device in real time: modelled steps and copies on the monotonic clock, for a server without a GPU."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from backends.sim.costs.base import CostModel
from backends.sim.filler import Filler
from backends.sim.links import CopyTicket, Links, LinkSpec
from backends.sim.modelled import ModelledDevice
from schedlab.device import CopyKind, DeviceFacts, Step, StepResult, Ticket
from schedlab.pace import ArithmeticPace, Pace, ns_to_quanta, quanta_to_ns

_NS_PER_S = 1_000_000_000
_CLOSE_S = 600.0


class PacedClock:
    """The monotonic clock since it was made. Calls come on a thread of its own, which starts with the first of them."""

    def __init__(self) -> None:
        self._begin_ns = time.monotonic_ns()
        self._changed = threading.Condition()
        self._alarms: list[tuple[int, int, Callable[[Any], None]]] = []
        self._num_alarms = 0
        self._thread: threading.Thread | None = None
        self._closed = False

    def now_ns(self) -> int:
        return time.monotonic_ns() - self._begin_ns

    def now_quanta(self) -> int:
        return ns_to_quanta(self.now_ns())

    def at(self, at_quanta: int, callback: Callable[[Any], None]) -> None:
        """Call back at a time, or at once if it is past."""
        with self._changed:
            self._num_alarms += 1
            heappush(self._alarms, (quanta_to_ns(at_quanta), self._num_alarms, callback))
            self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._ring, name="paced-clock", daemon=True)
                self._thread.start()

    def sleep_until(self, at_quanta: int) -> None:
        left_ns = quanta_to_ns(at_quanta) - self.now_ns()
        if left_ns > 0:
            time.sleep(left_ns / _NS_PER_S)

    def close(self) -> None:
        """Block until all calls have been made and the thread has ended."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(_CLOSE_S)

    def _ring(self) -> None:
        while (callback := self._next()) is not None:
            callback(None)

    def _next(self) -> Callable[[Any], None] | None:
        """The call that is due, when it is; None if it is closed and there is none left."""
        with self._changed:
            while not self._alarms or self._alarms[0][0] > self.now_ns():
                if self._closed and not self._alarms:
                    return None
                left_ns = self._alarms[0][0] - self.now_ns() if self._alarms else None
                self._changed.wait(None if left_ns is None else max(left_ns, 0) / _NS_PER_S)
            return heappop(self._alarms)[2]


class PacedTicket:
    """The step in flight and when it ends."""

    __slots__ = ("number", "pace", "step")

    def __init__(self, number: int, step: Step, pace: Pace) -> None:
        self.number = number
        self.step = step
        self.pace = pace


class PacedDevice(ModelledDevice):
    """Steps last as long as the cost model says, one iteration each, and give filler tokens. For `run_blocking`."""

    def __init__(
        self, cost: CostModel, filler: Filler, facts: DeviceFacts, link_specs: dict[CopyKind, LinkSpec]
    ) -> None:
        self.clock = PacedClock()
        super().__init__(self.clock, cost, filler, facts, Links(self.clock, link_specs))
        self.on_copy_done: list[Callable[[Ticket, str], None]] = []
        self.links.on_done.append(self._announce)
        self._filler = filler
        self._num_launches = 0

    def launch(self, step: Step) -> PacedTicket:
        """Begin a step when the copies that it names have ended."""
        start_quanta = self.clock.now_quanta()
        for copy in step.after:
            start_quanta = max(start_quanta, self.links.end_quanta(copy))
        self._num_launches += 1
        return PacedTicket(self._num_launches, step, self.pace_of(step, start_quanta, 1))

    def wait(self, ticket: Ticket) -> StepResult:
        """Sleep until the step in flight has ended; it lasts as long as it did by the clock."""
        assert isinstance(ticket, PacedTicket)
        start_quanta = ticket.pace.start_quanta
        self.clock.sleep_until(ticket.pace.last_quanta)
        pace = ArithmeticPace(start_quanta, 1, max(1, self.clock.now_quanta() - start_quanta))
        step, filler = ticket.step, self._filler
        return StepResult(
            1,
            pace,
            [],
            tokens=filler.sample(step),
            logprobs=filler.logprobs(step),
            prompt_logprobs=filler.prompt_logprobs(step),
        )

    def close(self) -> None:
        """Block until all copies have ended, and the clock's thread."""
        self.clock.close()

    def _announce(self, ticket: CopyTicket) -> None:
        for notify in self.on_copy_done:
            notify(ticket, ticket.error)
