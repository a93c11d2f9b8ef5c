"""Clients that leave as a fault plan says: each departure is a cancel in the scheduler's inbox."""

from __future__ import annotations

from functools import partial
from random import Random

from simpy.events import Event

from backends.sim.clock import SimClock
from schedlab.events import Arrived, Finished
from schedlab.fault_plan import Departure
from schedlab.inbox import Cancel, Delivery, Inbox

# Departures of an instant come behind its arrivals.
SOURCE = 1


class Departures:
    """Observer: cancels requests that live at the time at which their client leaves.

    A chance is drawn for each request from the plan's seed and the request's id, whatever else happens.

    Attributes:
        num_departed: cancels that were sent.
    """

    def __init__(self, clock: SimClock, inbox: Inbox, departures: tuple[Departure, ...]) -> None:
        self._clock = clock
        self._inbox = inbox
        self._by_chance = [departure for departure in departures if departure.request_id is None]
        self._live: dict[int, None] = {}
        self.num_departed = 0
        for departure in departures:
            if departure.request_id is not None:
                clock.at_ns(departure.at_ns, partial(self._leave, departure.request_id))

    def on_arrived(self, event: Arrived) -> None:
        request = event.sequence.request
        self._live[request.request_id] = None
        for departure in self._by_chance:
            random = Random(f"{departure.seed}/{request.request_id}")
            if random.random() < departure.chance:
                due_ns = request.arrival_ns + random.randrange(*departure.delay)
                self._clock.at_ns(due_ns, partial(self._leave, request.request_id))

    def on_finished(self, event: Finished) -> None:
        self._live.pop(event.sequence.request_id, None)

    def _leave(self, request_id: int, _: Event) -> None:
        if request_id in self._live:
            del self._live[request_id]
            delivery = Delivery(self._clock.now_ns(), SOURCE, request_id, Cancel(request_id))
            self._inbox.deliver(delivery)
            self.num_departed += 1
