"""The loop on the simulated clock: it sleeps, wakes, ends, and says who starves on what when nothing can move."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from backends.sim.clock import SimClock
from backends.sim.costs.constant import Constant
from backends.sim.device import SimDevice
from backends.sim.outputs import Lengths
from backends.sim.process import SimProcess
from schedlab.config import SchedulerConfig
from schedlab.core.scheduler import Scheduler
from schedlab.device import DeviceFacts
from schedlab.errors import Stalled
from schedlab.events import Finished
from schedlab.inbox import Close, Delivery, Submit
from schedlab.invariants import Checker
from schedlab.policies.base import Policy
from schedlab.policies.fifo import Fifo
from schedlab.policies.view import View
from schedlab.request import FinishReason, Prompt, Request
from schedlab.sequence import Sequence


class NeverAdmits(Policy):
    """Refuses everybody."""

    name = "never"

    def admit(self, view: View, sequence: Sequence) -> bool:
        return False


class OpensAt(Policy):
    """Refuses everybody before a time that it names."""

    name = "opens"

    def compose(self, view: View) -> int:
        return view.token_budget if view.now_ns >= 5000 else 0

    def stable_until_ns(self, view: View) -> int:
        return 5000


class Run:
    """One request of 3 prompt tokens and 2 outputs at 100 ns, then the end of arrivals."""

    def __init__(self, policy: Callable[[SchedulerConfig], Policy], deadline_ns: int | None = None) -> None:
        self.clock = SimClock()
        self.outputs = Lengths()
        config = SchedulerConfig(block_size=4, max_num_seqs=2, max_num_batched_tokens=8)
        device = SimDevice(self.clock, Constant(step_ns=1000), self.outputs, DeviceFacts("sim", 10))
        self.core = Scheduler(config, policy(config), device)
        self.ends: list[tuple[int, FinishReason]] = []
        self.core.bus.add(self)
        Checker().attach(self.core)
        self.process = SimProcess(self.clock, self.core, device)
        self.outputs.expect(7, 2)
        self.clock.at_ns(100, lambda _: self._deliver(deadline_ns))

    def on_finished(self, event: Finished) -> None:
        self.ends.append((event.now_ns, event.reason))

    def _deliver(self, deadline_ns: int | None) -> None:
        request = Request(7, Prompt(3), 10, arrival_ns=100, deadline_ns=deadline_ns)
        self.core.inbox.deliver(Delivery(100, 0, 0, Submit(request)))
        self.core.inbox.deliver(Delivery(100, 0, 1, Close()))


def test_an_idle_loop_sleeps_until_something_comes_and_shuts_down_after_the_last() -> None:
    run = Run(Fifo)
    run.clock.run()
    assert run.ends == [(2100, FinishReason.STOP)]
    assert run.process.done


def test_a_policy_that_admits_nobody_is_a_stall_that_names_the_request_and_its_need() -> None:
    run = Run(NeverAdmits)
    with pytest.raises(Stalled) as stalled:
        run.clock.run()
    message = str(stalled.value)
    for part in ("request 7 (pending)", "3 prompt tokens", "1 blocks", "10 of 10 blocks are free", "2 seats", "never"):
        assert part in message


def test_a_deadline_ends_a_wait_that_nothing_else_would() -> None:
    run = Run(NeverAdmits, deadline_ns=4321)
    run.clock.run()
    assert run.ends == [(4321, FinishReason.TIMEOUT)]
    assert run.process.done


def test_the_loop_wakes_when_the_policy_said_that_it_may_change_its_mind() -> None:
    run = Run(OpensAt)
    run.clock.run()
    assert run.ends == [(7000, FinishReason.STOP)]


def test_a_shutdown_ends_whoever_is_left_with_an_error() -> None:
    run = Run(NeverAdmits)
    with pytest.raises(Stalled):
        run.clock.run()
    run.core.finish()
    assert [reason for _, reason in run.ends] == [FinishReason.ERROR]
    assert not run.core.sequences and run.core.pool.used_blocks == 0
