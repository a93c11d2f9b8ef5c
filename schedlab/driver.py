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
