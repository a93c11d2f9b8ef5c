"""Where messages for a scheduler wait until its next plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from schedlab.device import Ticket
from schedlab.request import Request


class Submit(NamedTuple):
    """A request arrives."""

    request: Request


class Cancel(NamedTuple):
    """A client has gone. Unknown and ended ids are no errors."""

    request_id: int


class CopyDone(NamedTuple):
    """A copy has ended; `error` is empty if it succeeded."""

    ticket: Ticket
    error: str = ""


class ResetCache(NamedTuple):
    """What the prefix cache holds is of no use any more, as after a change of weights.

    It is refused while any block is in use, be it in an image of one who is swapped out, unless `preempt_running`:
    then all who own something start over.
    """

    preempt_running: bool = False


class Close(NamedTuple):
    """Nothing will follow."""


Message = Submit | Cancel | CopyDone | ResetCache | Close


class Delivery(NamedTuple):
    """A message with its place in the order (time, source id, number within the source)."""

    time_ns: int
    source: int
    number: int
    message: Message


class Inbox:
    """Deliveries since the last plan. Their order is their own, never that of the calls that brought them."""

    __slots__ = ("_deliveries", "closed", "on_delivery")

    def __init__(self) -> None:
        self._deliveries: list[Delivery] = []
        self.closed = False
        # Whoever drives the scheduler wakes it, or stops a run of the device, when something comes.
        self.on_delivery: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self._deliveries)

    def deliver(self, delivery: Delivery) -> None:
        """Add a delivery; the next plan at or after its time sees it."""
        self._deliveries.append(delivery)
        for notify in self.on_delivery:
            notify()

    def drain(self) -> list[Delivery]:
        """Take everything, in order."""
        deliveries = self._deliveries
        if not deliveries:
            return deliveries
        self._deliveries = []
        if len(deliveries) > 1:
            deliveries.sort(key=lambda delivery: delivery[:3])
        return deliveries
