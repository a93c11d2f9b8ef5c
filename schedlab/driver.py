"""The loop, once for every device: plan, lanes, end of tick, finish. It owns no state but its place in the loop."""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

from schedlab.core.scheduler import Scheduler
from schedlab.device import StepResult, Ticket


class Wait(NamedTuple):
    """Send back the result of this step when it has ended."""

    ticket: Ticket


class Idle(NamedTuple):
    """Go on at `until_ns` or upon a delivery, whichever is first, and after everything due at that instant has come."""

    until_ns: int


def drive(core: Scheduler) -> Generator[Wait | Idle, StepResult | None, None]:
    """Run `core` to its shutdown. Yields what it waits for and is sent the answer: a result to Wait, None to Idle.

    A simulated device resumes it from its event queue, a real one from a thread that blocks.

    Raises:
        Stalled: work is left that nothing will ever move.
    """
    yield Idle(core.device.now_ns())
    while True:
        plan = core.plan()
        if plan.shutdown:
            break
        for lane in plan.lanes:
            while (ticket := core.launch(lane)) is not None:
                result = yield Wait(ticket)
                assert result is not None
                core.commit(result)
        core.end_tick()
        yield Idle(core.wake_ns())
    core.finish()
