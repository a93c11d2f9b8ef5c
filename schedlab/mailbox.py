"""The way from other threads to a scheduler that runs on its own."""

from __future__ import annotations

import threading
from collections.abc import Callable

from schedlab.device import FOREVER_NS, Ticket
from schedlab.inbox import CopyDone, Delivery, Inbox, Message

CLIENTS_SOURCE = 0
COPIES_SOURCE = -1
_NS_PER_S = 1_000_000_000


class Mailbox:
    """Messages in the order of sending. Any thread may send; the scheduler's takes. Nobody waits for the scheduler."""

    def __init__(self) -> None:
        self._arrived = threading.Condition()
        self._letters: list[tuple[int, Message]] = []
        self._num_taken = 0

    def send(self, message: Message) -> None:
        """From a client."""
        self._put(CLIENTS_SOURCE, message)

    def send_copy_done(self, ticket: Ticket, error: str) -> None:
        """From the device, when a copy has ended."""
        self._put(COPIES_SOURCE, CopyDone(ticket, error))

    def wait_until(self, until_ns: int, now_ns: Callable[[], int]) -> None:
        """Block until that time on that clock, or until something has been sent."""
        with self._arrived:
            while not self._letters and (left_ns := until_ns - now_ns()) > 0:
                self._arrived.wait(None if until_ns >= FOREVER_NS else left_ns / _NS_PER_S)

    def empty_into(self, inbox: Inbox, now_ns: Callable[[], int]) -> None:
        """Deliver what has been sent, as of now."""
        if not self._letters:
            return
        with self._arrived:
            letters, self._letters = self._letters, []
        time_ns = now_ns()
        for source, message in letters:
            self._num_taken += 1
            inbox.deliver(Delivery(time_ns, source, self._num_taken, message))

    def _put(self, source: int, message: Message) -> None:
        with self._arrived:
            self._letters.append((source, message))
            self._arrived.notify()
