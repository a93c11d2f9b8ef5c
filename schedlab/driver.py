"""The loop, once for every device: plan, lanes, end of tick, finish. It owns no state but its place in the loop."""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

from schedlab.core.scheduler import Scheduler
from schedlab.device import BlockingDevice, StepResult, Ticket
from schedlab.mailbox import Mailbox


class Wait(NamedTuple):
    """Send back the result of this step when it has ended."""

    ticket: Ticket


class Idle(NamedTuple):
    """Go on at `until_ns` or upon a delivery, whichever is first, and after everything due at that instant has come."""

    until_ns: int


class Settle(NamedTuple):
    """Go on when nobody has anything more to say at this instant, or sooner upon a delivery.

    What this scheduler has just ended may be a delivery to another one, and the other way round: each receives all
    of that before any of them decides, whoever is first.
    """


SETTLE = Settle()


def drive(core: Scheduler) -> Generator[Wait | Idle | Settle, StepResult | None, None]:
    """Run `core` to its shutdown. Yields what it waits for and is sent the answer: a result to Wait, else None.

    A simulated device resumes it from its event queue, a real one from a thread that blocks.

    Raises:
        Stalled: work is left that nothing will ever move.
    """
    yield Idle(core.device.now_ns())
    while True:
        core.begin_tick()
        yield SETTLE
        while len(core.inbox):
            core.receive()
            yield SETTLE
        plan = core.plan()
        if plan.shutdown:
            break
        for lane in plan.lanes:
            if (ticket := core.launch(lane)) is not None:
                result = yield Wait(ticket)
                assert result is not None
                core.commit(result)
        core.end_tick()
        yield Idle(core.wake_ns())
    core.finish()


def run_blocking(core: Scheduler, device: BlockingDevice, mailbox: Mailbox) -> None:
    """Run `core` to its shutdown on this thread and on real time; `device` is its own, `mailbox` the way to it.

    Whatever other threads send is delivered between two decisions, with the time at which it was taken in.

    Raises:
        Stalled: work is left that nothing will ever move.
    """
    device.on_copy_done.append(mailbox.send_copy_done)
    loop = drive(core)
    answer: StepResult | None = None
    while True:
        try:
            command = loop.send(answer)
        except StopIteration:
            return
        answer = device.wait(command.ticket) if isinstance(command, Wait) else None
        if isinstance(command, Idle):
            mailbox.wait_until(command.until_ns, device.now_ns)
        mailbox.empty_into(core.inbox, device.now_ns)
