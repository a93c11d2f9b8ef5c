"""A simulated device and links that go wrong as planned. Without a plan the plain ones run, and nothing is paid.

Everything follows from the plan, the numbers of iterations and copies, and simulated time; so a run whose decode steps
are repeated in closed form fails as one that is stepped: a repeated step ends before the next iteration that is
different, and where a slow time begins or ends.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from backends.sim.clock import SimClock
from backends.sim.costs.base import CostModel
from backends.sim.device import SimDevice, StepTicket
from backends.sim.links import CopyTicket, Links, LinkSpec
from backends.sim.outputs import OutputModel
from schedlab.device import CopyKind, CopyOp, DeviceFacts, Step, StepResult
from schedlab.errors import DeviceFault
from schedlab.fault_plan import NEVER, FaultPlan, Which, Window
from schedlab.pace import QUANTA_PER_NS, ArithmeticPace, Pace, SteppedPace, ns_to_quanta, quanta_to_ns

PERMILLE = 1000


class Numbers:
    """The numbers of a `Which`, one after the other; `next` is the least one not passed."""

    __slots__ = ("_rest", "next")

    def __init__(self, which: Which) -> None:
        self._rest = which.in_order()
        self.next = next(self._rest, NEVER)

    def skip_below(self, number: int) -> None:
        """Pass everything below `number`."""
        while self.next < number:
            self.next = next(self._rest, NEVER)


class FaultyLinks(Links):
    """Links that are slow and copies that fail. A copy that needs what a failed one of its image brings fails too."""

    def __init__(self, clock: SimClock, specs: Mapping[CopyKind, LinkSpec], plan: FaultPlan) -> None:
        super().__init__(clock, specs)
        self._slow = plan.slow_links
        self._disk_full = plan.disk_full
        self._failing = [(Numbers(failure.which), failure.kinds) for failure in plan.copy_failures]
        self._counts = [0] * len(self._failing)
        self.num_failed = 0
        self.num_slow = 0

    def copy(self, op: CopyOp) -> CopyTicket:
        ticket = super().copy(op)
        self.num_slow += bool(self._permilles(ticket.kind, ticket.start_quanta))
        return ticket

    def duration_quanta(self, kind: CopyKind, num_bytes: int, start_quanta: int) -> int:
        duration = super().duration_quanta(kind, num_bytes, start_quanta)
        for permille in self._permilles(kind, start_quanta):
            duration = duration * permille // PERMILLE
        return duration

    def error_of(self, op: CopyOp, end_quanta: int) -> str:
        error = self._planned_error(op, end_quanta) or _inherited_error(op)
        self.num_failed += bool(error)
        return error

    def _permilles(self, kind: CopyKind, start_quanta: int) -> list[int]:
        return [slow.permille for slow in self._slow if kind in slow.kinds and _is_in(slow.window, start_quanta)]

    def fail_next(self, kind: CopyKind) -> None:
        """The next copy of that kind fails."""
        self._failing.append((Numbers(Which((1,))), (kind,)))
        self._counts.append(0)

    def _planned_error(self, op: CopyOp, end_quanta: int) -> str:
        error = ""
        for index, (numbers, kinds) in enumerate(self._failing):
            if op.kind in kinds:
                self._counts[index] += 1
                numbers.skip_below(self._counts[index])
                if numbers.next == self._counts[index]:
                    error = f"injected: copy {self._counts[index]} failed"
        if op.kind is CopyKind.HOST_TO_DISK and any(_is_in(window, end_quanta) for window in self._disk_full):
            error = "injected: the disk is full"
        return error


class FaultyDevice(SimDevice):
    """A device whose steps fail or take long, and that may be lost.

    Attributes:
        num_failed, num_slow: iterations that failed, and those that took longer than they should.
        lost_ns: when the first step found the device lost; None while it is not.
        on_lost: told when that happens.
    """

    def __init__(
        self,
        clock: SimClock,
        cost: CostModel,
        outputs: OutputModel,
        facts: DeviceFacts,
        links: Links,
        plan: FaultPlan,
    ) -> None:
        super().__init__(clock, cost, outputs, facts, links)
        self._number = 1
        self._failing = [Numbers(failure.which) for failure in plan.step_failures if failure.which]
        self._failing_at = _times(failure.at_ns for failure in plan.step_failures)
        self._loss = min((Numbers(loss.which).next for loss in plan.device_losses if loss.which), default=NEVER)
        self._loss_at = next(iter(_times(loss.at_ns for loss in plan.device_losses)), None)
        self._slow = [(Numbers(slow.which), slow.permille) for slow in plan.slow_steps if slow.which]
        self._slow_windows = [(slow.window, slow.permille) for slow in plan.slow_steps if slow.window]
        windows = [window for window, _ in self._slow_windows] + [slow.window for slow in plan.slow_links]
        self._edges = _times(edge for window in windows for edge in window)
        self._error = ""
        self._is_loss = False
        self._is_slow = False
        self.num_failed = 0
        self.num_slow = 0
        self.lost_ns: int | None = None
        self.on_lost: list[Callable[[], None]] = []

    def pace_of(self, step: Step, start_quanta: int, most: int) -> Pace:
        if self.lost_ns is not None:
            self._error = "injected: the device is lost"
            return ArithmeticPace(start_quanta, 1, QUANTA_PER_NS)
        pace = super().pace_of(step, start_quanta, min(most, self._alike()))
        permille = self._permille(start_quanta)
        self._is_slow = permille != PERMILLE
        if self._is_slow:
            pace = _stretched(pace, permille)
        edge = bisect_right(self._edges, start_quanta)
        if edge < len(self._edges) and pace.count > 1:
            pace = pace.truncated(pace.first_at_or_after(self._edges[edge]))
        return self._until_failure(pace)

    def fail_now(self) -> None:
        """The iteration under way that ends next fails, or the first of the next step."""
        insort(self._failing_at, self.clock.now_quanta())
        self.interrupt()

    def counts(self) -> dict[str, Any]:
        """What has gone wrong so far; `device_lost_s` is None while the device is there."""
        links = self.links
        return {
            "failed_steps": self.num_failed,
            "slow_steps": self.num_slow,
            "failed_copies": links.num_failed if isinstance(links, FaultyLinks) else 0,
            "slow_copies": links.num_slow if isinstance(links, FaultyLinks) else 0,
            "device_lost_s": None if self.lost_ns is None else self.lost_ns / 1e9,
        }

    def _result(self, ticket: StepTicket) -> StepResult:
        self._number += ticket.pace.count
        self.num_slow += ticket.pace.count if self._is_slow else 0
        error, self._error = self._error, ""
        if not error:
            return super()._result(ticket)
        self.num_failed += 1
        if self.lost_ns is None and self._is_loss:
            self.lost_ns = self.now_ns()
            for notify in self.on_lost:
                notify()
        return StepResult(1, ticket.pace, [], fault=DeviceFault(error))

    def _alike(self) -> int:
        """Iterations from the next one on that no number of the plan tells apart from it; at least 1."""
        number = self._number
        upcoming = [*self._failing, *(numbers for numbers, _ in self._slow)]
        for numbers in upcoming:
            numbers.skip_below(number)
        nearest = min((numbers.next for numbers in upcoming), default=NEVER)
        return max(1, min(nearest, self._loss) - number)

    def _permille(self, start_quanta: int) -> int:
        permille = PERMILLE
        factors = [factor for numbers, factor in self._slow if numbers.next == self._number]
        factors += [factor for window, factor in self._slow_windows if _is_in(window, start_quanta)]
        for factor in factors:
            permille = permille * factor // PERMILLE
        return permille

    def _until_failure(self, pace: Pace) -> Pace:
        """The run up to the first iteration that fails, or that one alone with the error that it will have."""
        is_due = self._is_due(pace)
        self._is_loss = self._number >= self._loss or (
            self._loss_at is not None and not pace.completed_by(self._loss_at)
        )
        if self._is_loss:
            self._error = f"injected: the device was lost in step {self._number}"
        elif is_due or any(numbers.next == self._number for numbers in self._failing):
            self._error = f"injected: step {self._number} failed"
        if self._error:
            return pace.truncated(1)
        for at_quanta in (*self._failing_at[:1], self._loss_at):
            if at_quanta is not None:
                pace = pace.truncated(pace.completed_by(at_quanta))
        return pace

    def _is_due(self, pace: Pace) -> bool:
        """Is the next iteration under way at a time at which one fails? Times that it covers are over then."""
        due = [at_quanta for at_quanta in self._failing_at if not pace.completed_by(at_quanta)]
        del self._failing_at[: len(due)]
        return bool(due)


def _times(times_ns: Iterable[int | None]) -> list[int]:
    """Times in quanta, rising, each once."""
    return sorted({ns_to_quanta(time_ns): None for time_ns in times_ns if time_ns is not None})


def _is_in(window: Window, at_quanta: int) -> bool:
    return window.begin_ns <= quanta_to_ns(at_quanta) < window.end_ns


def _stretched(pace: Pace, permille: int) -> Pace:
    def duration(i: int) -> int:
        return max(1, (pace.end_quanta(i) - pace.end_quanta(i - 1)) * permille // PERMILLE)

    return SteppedPace(pace.start_quanta, pace.count, duration)


def _inherited_error(op: CopyOp) -> str:
    """The error of a copy that this one goes on from: one of the same image, waited for."""
    for ticket in op.after:
        if isinstance(ticket, CopyTicket) and ticket.error and ticket.request_id == op.request_id:
            return ticket.error
    return ""
