"""Clients that leave as a fault plan says: each departure is a cancel in the scheduler's inbox."""

from __future__ import annotations

from functools import partial
from random import Random

from simpy.events import Event

from backends.sim.clock import SimClock
from schedlab.events import Finished, Refused
from schedlab.fault_plan import Departure
from schedlab.inbox import Cancel, Delivery, Inbox
from schedlab.request import FinishReason, Request

# Departures of an instant come behind its arrivals.
SOURCE = 1


class Departures:
    """Observer of a scheduler, told of each request by whoever makes it: cancels those whose client leaves.

    A client may leave from the instant on at which its request arrives, whether the scheduler has seen it or not. A
    chance is drawn for each request from the plan's seed and the request's id, whatever else happens.

    Attributes:
        num_departed: requests that ended so.
    """

    def __init__(self, clock: SimClock, inbox: Inbox, departures: tuple[Departure, ...]) -> None:
        self._clock = clock
        self._inbox = inbox
        self._by_chance = [departure for departure in departures if departure.request_id is None]
        self._by_id: dict[int, list[int]] = {}
        self._live: dict[int, None] = {}
        self.num_departed = 0
        for departure in departures:
            if departure.request_id is not None:
                self._by_id.setdefault(departure.request_id, []).append(departure.at_ns)

    def made(self, request: Request) -> None:
        """A request arrives now."""
        request_id, arrival_ns = request.request_id, request.arrival_ns
        due_ns = [at_ns for at_ns in self._by_id.get(request_id, ()) if at_ns >= arrival_ns]
        for departure in self._by_chance:
            random = Random(f"{departure.seed}/{request_id}")
            if random.random() < departure.chance:
                due_ns.append(arrival_ns + random.randrange(*departure.delay))
        if due_ns:
            self._live[request_id] = None
            self._clock.at_ns(min(due_ns), partial(self._leave, request_id))

    def on_refused(self, event: Refused) -> None:
        self._live.pop(event.sequence.request_id, None)

    def on_finished(self, event: Finished) -> None:
        self._live.pop(event.sequence.request_id, None)
        self.num_departed += event.reason is FinishReason.CANCELLED

    def _leave(self, request_id: int, _: Event) -> None:
        if request_id in self._live:
            delivery = Delivery(self._clock.now_ns(), SOURCE, request_id, Cancel(request_id))
            self._inbox.deliver(delivery)
