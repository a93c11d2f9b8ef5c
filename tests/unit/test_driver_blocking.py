"""The loop on its own thread and on real time: what others send reaches it, and it sleeps when nothing is due."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from schedlab.config import SchedulerConfig
from schedlab.core.scheduler import Scheduler
from schedlab.device import Step, StepResult, Ticket
from schedlab.driver import run_blocking
from schedlab.errors import Stalled
from schedlab.inbox import Cancel, Close, CopyDone, Inbox, Submit
from schedlab.mailbox import COPIES_SOURCE, Mailbox
from schedlab.pace import ArithmeticPace
from schedlab.policies.fifo import Fifo
from schedlab.request import Prompt, Request
from tests.unit.hand_device import HandDevice, HandTicket

JOIN_S = 20.0


class ClockedDevice(HandDevice):
    """A hand device on the real clock whose steps end at once."""

    def __init__(self) -> None:
        super().__init__(state_bytes=0)
        self.on_copy_done: list[Callable[[Ticket, str], None]] = []

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def wait(self, ticket: Ticket) -> StepResult:
        return StepResult(1, ArithmeticPace(0, 1, 1), [])


class Served:
    """A scheduler on a thread of its own, and how its requests ended."""

    def __init__(self) -> None:
        config = SchedulerConfig(max_num_seqs=4)
        self.device, self.mailbox = ClockedDevice(), Mailbox()
        self.core = Scheduler(config, Fifo(config), self.device)
        self.ends: dict[int, str] = {}
        self.error: BaseException | None = None
        self.core.bus.add(SimpleNamespace(on_finished=self._note))
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def join(self) -> None:
        self.thread.join(JOIN_S)
        assert not self.thread.is_alive()

    def _run(self) -> None:
        try:
            run_blocking(self.core, self.device, self.mailbox)
        except BaseException as error:
            self.error = error

    def _note(self, event: Any) -> None:
        self.ends[event.sequence.request_id] = str(event.reason)


def request(request_id: int, outputs: int = 3, **changes: Any) -> Submit:
    return Submit(Request(request_id, Prompt(8), outputs, **changes))


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + JOIN_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_requests_of_many_threads_are_all_served() -> None:
    served = Served()
    senders = [
        threading.Thread(target=lambda first=first: [served.mailbox.send(request(first + n)) for n in range(50)])
        for first in (0, 100, 200, 300)
    ]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    served.mailbox.send(Close())
    served.join()
    assert len(served.ends) == 200 and set(served.ends.values()) == {"length"}


def test_it_sleeps_until_something_comes_and_ends_when_closed() -> None:
    served = Served()
    served.mailbox.send(request(1))
    wait_for(lambda: 1 in served.ends)
    num_steps = len(served.device.steps)
    served.mailbox.send(request(2))
    wait_for(lambda: 2 in served.ends)
    assert len(served.device.steps) > num_steps and served.thread.is_alive()
    served.mailbox.send(Close())
    served.join()
    assert served.error is None


def test_a_deadline_wakes_it() -> None:
    served = Served()
    served.mailbox.send(request(1, outputs=1 << 40, deadline_ns=time.monotonic_ns() + 50_000_000))
    wait_for(lambda: 1 in served.ends)
    assert served.ends == {1: "timeout"}
    served.mailbox.send(Close())
    served.join()


def test_a_running_request_can_be_cancelled() -> None:
    served = Served()
    served.mailbox.send(request(1, outputs=1 << 40))
    wait_for(lambda: len(served.device.steps) > 3)
    served.mailbox.send(Cancel(1))
    served.mailbox.send(Close())
    served.join()
    assert served.ends == {1: "cancelled"}


def test_an_error_of_the_loop_comes_out_of_it() -> None:
    served = Served()

    def fail(step: Step) -> HandTicket:
        raise Stalled("on purpose")

    served.device.launch = fail  # type: ignore[method-assign]
    served.mailbox.send(request(1))
    served.join()
    assert isinstance(served.error, Stalled)


def test_ends_of_copies_are_told_apart_from_clients() -> None:
    mailbox, inbox = Mailbox(), Inbox()
    mailbox.send(Cancel(1))
    mailbox.send_copy_done(HandTicket(7), "broken")
    mailbox.empty_into(inbox, lambda: 5)
    copy, cancel = inbox.drain()
    assert (copy.source, copy.message) == (COPIES_SOURCE, CopyDone(HandTicket(7), "broken"))
    assert (cancel.time_ns, cancel.message) == (5, Cancel(1))


def test_nobody_waits_in_vain_for_a_time_that_is_past() -> None:
    Mailbox().wait_until(3, lambda: 4)


@pytest.mark.parametrize("block_size", [1, 4, 5])
def test_keys_of_tokens_are_chained(block_size: int) -> None:
    first = Prompt.of_tokens(range(12)).block_keys(block_size)
    assert len(first) == 12 // block_size and len(set(first)) == len(first)
    changed = Prompt.of_tokens([*range(5), 99, *range(6, 12)]).block_keys(block_size)
    unchanged = 5 // block_size
    assert changed[:unchanged] == first[:unchanged]
    assert not set(changed[unchanged:]) & set(first)
    assert Prompt.of_tokens(range(13)).block_keys(block_size)[: len(first)] == first
