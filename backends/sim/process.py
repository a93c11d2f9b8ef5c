"""Runs a scheduler's loop on the simulated clock."""

from __future__ import annotations

from simpy.events import Event

from backends.sim.clock import Alarm, SimClock
from backends.sim.device import SimDevice
from backends.sim.links import CopyTicket
from schedlab.core.scheduler import Scheduler
from schedlab.device import FOREVER_NS, StepResult
from schedlab.driver import Idle, Settle, Wait, drive
from schedlab.inbox import CopyDone, Delivery

COPIES_SOURCE = -1


class SimProcess:
    """Resumes `drive` when its step ends, when its timer rings, or when something is delivered.

    After an idle wait the loop goes on only when everything due at the instant has happened, so a delivery at a time is
    visible to a plan at that time, whoever made it.
    """

    __slots__ = ("_clock", "_core", "_device", "_loop", "_settling", "_sleeping", "_timer", "done")

    def __init__(self, clock: SimClock, core: Scheduler, device: SimDevice) -> None:
        self._clock = clock
        self._core = core
        self._device = device
        self._loop = drive(core)
        self._sleeping = False
        self._timer: Alarm | None = None
        self._settling: Alarm | None = None
        self.done = False
        core.inbox.on_delivery.append(self._on_delivery)
        device.links.on_done.append(self._on_copy)
        self._resume(None)

    def _resume(self, answer: StepResult | None) -> None:
        clock = self._clock
        try:
            command = self._loop.send(answer)
            while not isinstance(command, Wait) and clock.is_instant_over():
                if isinstance(command, Idle) and command.until_ns > clock.now_ns():
                    break
                command = self._loop.send(None)
        except StopIteration:
            self.done = True
            return
        if isinstance(command, Wait):
            self._device.when_done(command.ticket, self._resume)
        elif isinstance(command, Settle):
            self._settling = clock.when_settled(self._on_settled)
        else:
            self._idle(command)

    def _on_settled(self, alarm: Event) -> None:
        if alarm is self._settling:
            self._settling = None
            self._resume(None)

    def _idle(self, command: Idle) -> None:
        if command.until_ns <= self._clock.now_ns():
            self._clock.after_all_else(self._wake)
            return
        self._sleeping = True
        if command.until_ns < FOREVER_NS:
            self._timer = self._clock.at_ns(command.until_ns, self._on_timer)

    def _on_timer(self, alarm: Event) -> None:
        if alarm is self._timer:
            self._stop_sleeping()

    def _on_delivery(self) -> None:
        if self._sleeping:
            self._stop_sleeping()
        elif self._settling is not None:
            self._settling = None
            self._clock.after_all_else(self._wake)
        else:
            self._device.interrupt()

    def _stop_sleeping(self) -> None:
        self._sleeping, self._timer = False, None
        self._clock.after_all_else(self._wake)

    def _wake(self, _: Event) -> None:
        self._resume(None)

    def _on_copy(self, ticket: CopyTicket) -> None:
        message = CopyDone(ticket, ticket.error)
        delivery = Delivery(self._clock.now_ns(), COPIES_SOURCE, ticket.number, message)
        self._core.inbox.deliver(delivery)
