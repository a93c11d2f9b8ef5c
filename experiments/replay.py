"""Replays a trace on a simulated device."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backends.sim.clock import SimClock
from backends.sim.device import SimDevice
from backends.sim.faults import FaultyDevice, FaultyLinks
from backends.sim.links import Links
from backends.sim.outputs import Lengths
from backends.sim.process import SimProcess
from experiments.arrivals import OpenLoopSource, SessionSource
from experiments.checks import Check, attach, device_kind
from experiments.departures import Departures
from experiments.event_log import EventLog
from experiments.observers import Observers
from experiments.own_policy import blamed
from experiments.request_maker import RequestMaker
from experiments.result import Left, ReplayResult
from experiments.setup import Setup
from experiments.watch import Show, Stopped, StopSignal, Watch
from schedlab.core.scheduler import Scheduler
from schedlab.device import DeviceFacts
from schedlab.errors import Stalled


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a run is executed and watched. None of it changes its results.

    Attributes:
        leap: repeat decode steps in closed form.
        check: what is verified while it runs; None = nothing.
        events_path: where to write the decision log.
        perfetto_window_ns: part of the simulated time to record; None = the busiest 60 s.
        stop: asks the run to end early.
        show: is told how far the run has come.
    """

    leap: bool = True
    check: Check | None = None
    events_path: Path | None = None
    perfetto_window_ns: tuple[int, int] | None = None
    stop: StopSignal | None = None
    show: Show | None = None


def run(setup: Setup, how: RunOptions | None = None) -> ReplayResult:
    """Run to the end, or until it is asked to stop.

    Raises:
        Stalled: work is left that nothing will ever move.
        InvariantViolation: a law does not hold (with `check`).
        UsageError: a row of the trace is wrong, the policy raises, or the decision log cannot be written.
    """
    how = how or RunOptions()
    started, cpu_started = time.perf_counter(), time.process_time()
    clock, outputs = SimClock(), Lengths()
    device = _device(setup, clock, outputs, how.check)
    core = Scheduler(setup.scheduler, setup.policy, device, leap=how.leap)
    maker = RequestMaker(setup.limit, setup.scheduler.max_model_len, outputs)
    observers = Observers(maker, how.perfetto_window_ns)
    observers.add_to(core.bus, device.links, with_copies=setup.scheduler.uses_swap)
    held = attach(how.check, core)
    log = EventLog(how.events_path) if how.events_path else None
    if log is not None:
        core.bus.add(log)
    process = SimProcess(clock, core, device)
    source = _source(setup, clock, core, maker)
    if isinstance(source, SessionSource):
        core.bus.add(source)
    injected = _injected(setup, clock, core, source, maker)
    core.bus.add(
        Watch(observers.requests, observers.usage, setup.workload.stats.rows, how.stop or StopSignal(), how.show)
    )
    try:
        with blamed(setup.policy, setup.options.policy):
            stopped = _run_clock(clock)
    finally:
        if log is not None:
            log.close()
    if not stopped and not process.done:
        raise Stalled(core.why_stalled() if core.sequences else "the run has ended before its last request came")
    unsent_turns = source.unsent_turns if isinstance(source, SessionSource) else 0
    wall_s, cpu_s = time.perf_counter() - started, time.process_time() - cpu_started
    left = Left(
        unsent_turns,
        core.pool.cached_blocks,
        core.pool.num_evicted,
        core.snapshots.counts() if core.snapshots is not None else None,
        injected() if injected else None,
        held.facts() if held is not None else {},
    )
    return ReplayResult(setup, observers, left, partial=stopped, wall_s=wall_s, cpu_s=cpu_s)


def _device(setup: Setup, clock: SimClock, outputs: Lengths, check: Check | None) -> SimDevice:
    facts = DeviceFacts(
        setup.hardware.name,
        setup.num_blocks,
        setup.cost.window_tokens,
        block_bytes=setup.memory.block_bytes,
        state_bytes=setup.memory.state_bytes_per_seq,
    )
    if setup.faults.is_empty:
        return device_kind(SimDevice, check)(clock, setup.cost, outputs, facts, Links(clock, setup.links))
    links = FaultyLinks(clock, setup.links, setup.faults)
    kind: Any = device_kind(FaultyDevice, check)
    device: SimDevice = kind(clock, setup.cost, outputs, facts, links, setup.faults)
    return device


def _injected(
    setup: Setup,
    clock: SimClock,
    core: Scheduler,
    source: OpenLoopSource | SessionSource,
    maker: RequestMaker,
) -> Callable[[], dict[str, Any]] | None:
    """Start the faults that are not the device's own; what all of them came to is known when the run is over."""
    device = core.device
    if not isinstance(device, FaultyDevice):
        return None
    departures = Departures(clock, core.inbox, setup.faults.departures)
    core.bus.add(departures)
    if setup.faults.departures:
        maker.notify_made = departures.made
    device.on_lost.append(source.stop)
    return lambda: {**device.counts(), "departures": departures.num_departed}


def _source(setup: Setup, clock: SimClock, core: Scheduler, maker: RequestMaker) -> OpenLoopSource | SessionSource:
    kind = SessionSource if setup.workload.stats.closed_loop else OpenLoopSource
    return kind(clock, core.inbox, maker, setup.workload.records())


def _run_clock(clock: SimClock) -> bool:
    """True if the run was stopped before its end."""
    try:
        with _rare_collections():
            clock.run()
    except Stopped:
        return True
    return False


@contextmanager
def _rare_collections() -> Iterator[None]:
    """What a run makes is freed by reference counts; scanning it for cycles again and again finds nothing."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
