"""One run of a plan on a device in virtual time, with its decision log."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from backends.sim.clock import SimClock
from backends.sim.device import SimDevice
from backends.sim.outputs import Lengths
from backends.sim.process import SimProcess
from experiments.arrivals import OpenLoopSource, SessionSource
from experiments.departures import Departures
from experiments.event_log import EventLog
from experiments.own_policy import blamed
from experiments.parity.counts import Counts
from experiments.parity.plan import Plan
from experiments.request_maker import RequestMaker
from experiments.watch import Progress, Show
from schedlab.config import SchedulerConfig
from schedlab.core.plan import Lane
from schedlab.core.scheduler import Scheduler
from schedlab.device import Device, Ticket
from schedlab.errors import Stalled
from schedlab.events import Finished, StepDone
from schedlab.pace import quanta_to_ns
from schedlab.policies.base import Policy

MakeDevice = Callable[[SimClock, Lengths], SimDevice]
_SECONDS_BETWEEN_SHOWS = 0.1


class TickingScheduler(Scheduler):
    """Counts its ticks, and notes in which of them each step was launched."""

    def __init__(self, config: SchedulerConfig, policy: Policy, device: Device, *, leap: bool) -> None:
        super().__init__(config, policy, device, leap=leap)
        self.num_ticks = 0
        self.ticks_of_steps: array[int] = array("q")

    def begin_tick(self) -> None:
        self.num_ticks += 1
        super().begin_tick()

    def launch(self, lane: Lane) -> Ticket | None:
        ticket = super().launch(lane)
        if ticket is not None:
            self.ticks_of_steps.append(self.num_ticks)
        return ticket


class TickedLog(EventLog):
    """A decision log that notes in which tick each line was written. A step is one line where nothing is repeated."""

    def __init__(self, path: Path, core: TickingScheduler) -> None:
        super().__init__(path)
        self._core = core
        self.ticks_of_lines: array[int] = array("q")

    def _write(self, text: str) -> None:
        super()._write(text)
        self.ticks_of_lines.extend([self._core.num_ticks] * text.count("\n"))


@dataclass(frozen=True, slots=True)
class Ran:
    """What a run left.

    Attributes:
        ticks_of_lines, ticks_of_steps: the tick of each line of the log and of each step, in order.
    """

    log: Path
    log_bytes: int
    counts: Counts
    num_ticks: int
    ticks_of_lines: array[int]
    ticks_of_steps: array[int]


class _Bar:
    """Observer: tells a progress bar how far the run has come."""

    def __init__(self, show: Show, counts: Counts, total: int) -> None:
        self._show, self._counts, self._total = show, counts, total
        self._started = self._shown = time.monotonic()

    def on_step_done(self, event: StepDone) -> None:
        self._look(quanta_to_ns(event.pace.last_quanta))

    def on_finished(self, event: Finished) -> None:
        self._look(event.now_ns)

    def _look(self, now_ns: int) -> None:
        now = time.monotonic()
        if now - self._shown >= _SECONDS_BETWEEN_SHOWS:
            self._shown = now
            counts = self._counts
            ended = counts.finished + counts.refused
            self._show(Progress(ended, self._total, counts.output_tokens, now_ns, now - self._started))


def run(plan: Plan, make: MakeDevice, log: Path, show: Show, *, leap: bool) -> Ran:
    """Run to the end.

    Raises:
        Stalled: work is left that nothing will ever move.
        Diverged: the device holds a recording, and something else was asked.
        UsageError: a row of the trace is wrong, the policy raises, or the log cannot be written.
    """
    clock, outputs = SimClock(), Lengths()
    device = make(clock, outputs)
    core = TickingScheduler(plan.scheduler, plan.policy(), device, leap=leap)
    counts = Counts()
    with TickedLog(log, core) as events:
        for observer in (events, counts, _Bar(show, counts, plan.workload.stats.rows)):
            core.bus.add(observer)
        process = SimProcess(clock, core, device)
        _start_arrivals(plan, clock, core, outputs)
        with blamed(core.policy, plan.options.policy):
            clock.run()
    if not process.done:
        raise Stalled(core.why_stalled() if core.sequences else "the run has ended before its last request came")
    return Ran(log, log.stat().st_size, counts, core.num_ticks, events.ticks_of_lines, core.ticks_of_steps)


def _start_arrivals(plan: Plan, clock: SimClock, core: Scheduler, outputs: Lengths) -> None:
    maker = RequestMaker(plan.limit, plan.scheduler.max_model_len, outputs)
    if plan.workload.stats.closed_loop:
        core.bus.add(SessionSource(clock, core.inbox, maker, plan.workload.records()))
    else:
        OpenLoopSource(clock, core.inbox, maker, plan.workload.records())
    if plan.departures:
        departures = Departures(clock, core.inbox, plan.departures)
        core.bus.add(departures)
        maker.notify_made = departures.made
