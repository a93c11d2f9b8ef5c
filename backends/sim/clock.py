"""The simulated clock: SimPy's event queue with integer time in quanta of 2^-20 ns."""

from __future__ import annotations

from collections.abc import Callable

import simpy
from simpy.events import Event, EventPriority

from schedlab.pace import ns_to_quanta, quanta_to_ns

DUE = EventPriority(1)
# Everything that happens at an instant happens before anyone plans at that instant.
AFTER_ALL_ELSE = EventPriority(2)
# Everyone has received everything that is said at an instant before anyone decides at that instant.
SETTLED = EventPriority(3)
Callback = Callable[[Event], None]


class Alarm(Event):
    """An event that fires after a delay, like a SimPy timeout whose priority may be chosen."""

    def __init__(self, env: simpy.Environment, delay_quanta: int, callback: Callback, priority: EventPriority) -> None:
        self.env = env
        self.callbacks = [callback]
        self._ok = True
        self._value = None
        env.schedule(self, priority, delay_quanta)


class SimClock:
    """One simulated time line, shared by any number of devices, schedulers and sources of requests.

    SimPy keeps whatever numbers it is given: with whole delays from a whole start the time stays a whole number.
    """

    __slots__ = ("env",)

    def __init__(self) -> None:
        self.env = simpy.Environment(initial_time=0)

    def now_quanta(self) -> int:
        now: int = self.env.now  # type: ignore[assignment]
        return now

    def now_ns(self) -> int:
        return quanta_to_ns(self.env.now)  # type: ignore[arg-type]

    def at(self, at_quanta: int, callback: Callback) -> Alarm:
        """Call back at a time, or now if it is past."""
        return Alarm(self.env, max(at_quanta - self.now_quanta(), 0), callback, DUE)

    def at_ns(self, at_ns: int, callback: Callback) -> Alarm:
        """Call back at the start of a nanosecond, or now if it is past."""
        return self.at(ns_to_quanta(at_ns), callback)

    def after_all_else(self, callback: Callback) -> Alarm:
        """Call back at this instant, when everything else that is due at it has happened."""
        return Alarm(self.env, 0, callback, AFTER_ALL_ELSE)

    def when_settled(self, callback: Callback) -> Alarm:
        """Call back at this instant, when everything else and everybody's `after_all_else` have happened."""
        return Alarm(self.env, 0, callback, SETTLED)

    def is_instant_over(self) -> bool:
        """Has everything happened that is due at this instant?"""
        return self.env.peek() > self.env.now

    def run(self) -> None:
        """Until nothing is due any more. Errors of callbacks come out of here."""
        self.env.run()
