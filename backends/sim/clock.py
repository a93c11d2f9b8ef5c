"""The simulated clock: SimPy's event queue with integer time in quanta of 2^-20 ns."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush
from typing import Any, Protocol

import simpy
from simpy.events import Event, EventPriority

from schedlab.pace import QUANTA_SHIFT, ns_to_quanta

DUE = EventPriority(1)
# Everything that happens at an instant happens before anyone plans at that instant.
AFTER_ALL_ELSE = EventPriority(2)
# Everyone has received everything that is said at an instant before anyone decides at that instant.
SETTLED = EventPriority(3)
Callback = Callable[[Event], None]


class Clock(Protocol):
    """Time in quanta, and calls when it comes."""

    def now_quanta(self) -> int: ...

    def now_ns(self) -> int: ...

    def at(self, at_quanta: int, callback: Callable[[Any], None]) -> object:
        """Call back at a time, or now if it is past."""
        ...


class Alarm(Event):
    """An event that has happened as soon as it is made, and calls back when its time in the queue comes."""

    _ok = True
    _value = None

    def __init__(self, clock: SimClock, callback: Callback) -> None:
        self.env = clock
        self.callbacks = [callback]


class SimClock(simpy.Environment):
    """One simulated time line, shared by any number of devices, schedulers and sources of requests.

    SimPy keeps whatever numbers it is given: with whole times from a whole start the time stays a whole number.
    `run` goes on until nothing is due any more; errors of callbacks come out of it.
    """

    _now: int

    def __init__(self) -> None:
        super().__init__(initial_time=0)

    def now_quanta(self) -> int:
        return self._now

    def now_ns(self) -> int:
        return self._now >> QUANTA_SHIFT

    def at(self, at_quanta: int, callback: Callback, priority: EventPriority = DUE) -> Alarm:
        """Call back at a time, or now if it is past."""
        alarm, now = Alarm(self, callback), self._now
        # What `schedule` does, which knows delays only.
        heappush(self._queue, (at_quanta if at_quanta > now else now, priority, next(self._eid), alarm))
        return alarm

    def at_ns(self, at_ns: int, callback: Callback) -> Alarm:
        """Call back at the start of a nanosecond, or now if it is past."""
        return self.at(ns_to_quanta(at_ns), callback)

    def after_all_else(self, callback: Callback) -> Alarm:
        """Call back at this instant, when everything else that is due at it has happened."""
        return self.at(self._now, callback, AFTER_ALL_ELSE)

    def when_settled(self, callback: Callback) -> Alarm:
        """Call back at this instant, when everything else and everybody's `after_all_else` have happened."""
        return self.at(self._now, callback, SETTLED)

    def is_instant_over(self) -> bool:
        """Has everything happened that is due at this instant?"""
        return not self._queue or self._queue[0][0] > self._now
