"""The simulated clock: SimPy's event queue with integer time in quanta of 2^-20 ns."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import simpy
from simpy.events import Event, EventPriority

from schedlab.pace import ns_to_quanta, quanta_to_ns

# Everything that happens at an instant happens before anyone plans at that instant.
AFTER_ALL_ELSE = EventPriority(2)
Callback = Callable[[Event], None]


class Alarm(Event):
    """An event that fires at a time, like a SimPy timeout whose priority may be chosen."""

    def __init__(self, env: simpy.Environment, at_quanta: int, callback: Callback, priority: EventPriority) -> None:
        super().__init__(env)
        self._ok = True
        self._value = None
        assert self.callbacks is not None
        self.callbacks.append(callback)
        env.schedule(self, priority, at_quanta - int(env.now))


class SimClock:
    """One simulated time line, shared by any number of devices, schedulers and sources of requests."""

    __slots__ = ("env",)

    def __init__(self) -> None:
        self.env = simpy.Environment(initial_time=0)

    def now_quanta(self) -> int:
        return int(self.env.now)

    def now_ns(self) -> int:
        return quanta_to_ns(int(self.env.now))

    def at(self, at_quanta: int, callback: Callback) -> Alarm:
        """Call back at a time, or now if it is past."""
        return Alarm(self.env, max(at_quanta, self.now_quanta()), callback, EventPriority(1))

    def at_ns(self, at_ns: int, callback: Callback) -> Alarm:
        """Call back at the start of a nanosecond, or now if it is past."""
        return self.at(ns_to_quanta(at_ns), callback)

    def after_all_else(self, callback: Callback) -> Alarm:
        """Call back at this instant, when everything else that is due at it has happened."""
        return Alarm(self.env, self.now_quanta(), callback, AFTER_ALL_ELSE)

    def process(self, generator: Generator[Event, Any, Any]) -> simpy.Process:
        return self.env.process(generator)

    def run(self) -> None:
        """Until nothing is due any more. Errors of callbacks come out of here."""
        self.env.run()
