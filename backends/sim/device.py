"""The simulated device: a compute stream in virtual time, with links for copies beside it."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from simpy.events import Event

from backends.sim.clock import Alarm, SimClock
from backends.sim.costs.base import CostModel
from backends.sim.links import Links
from backends.sim.modelled import ModelledDevice
from backends.sim.outputs import OutputModel
from schedlab.batch import DecodeBatch
from schedlab.device import FOREVER_NS, DeviceFacts, Step, StepResult, Ticket
from schedlab.pace import Pace, ns_to_quanta
from schedlab.sequence import Sequence

ResultCallback = Callable[[StepResult], None]


class StepTicket:
    """The step in flight: its iterations as things stand, the first that ends a row, and who waits for the last."""

    __slots__ = ("alarm", "ends_row", "number", "on_done", "pace", "step")

    def __init__(self, number: int, step: Step, pace: Pace, ends_row: int, alarm: Alarm) -> None:
        self.number = number
        self.step = step
        self.pace = pace
        self.ends_row = ends_row
        self.alarm = alarm
        self.on_done: ResultCallback | None = None


class SimDevice(ModelledDevice):
    """Runs steps in the time that a cost model gives them and ends rows where an output model says.

    A decode step is repeated in closed form up to the first row's end, the caller's bounds, or a delivery.
    """

    def __init__(
        self, clock: SimClock, cost: CostModel, outputs: OutputModel, facts: DeviceFacts, links: Links | None = None
    ) -> None:
        super().__init__(clock, cost, outputs, facts, links or Links(clock))
        self.clock = clock
        self._ends = RowEnds(outputs)
        self._in_flight: StepTicket | None = None
        self._num_launches = 0
        self.busy_quanta = 0

    def launch(self, step: Step) -> StepTicket:
        """Begin a step when the copies that it names have ended."""
        assert self._in_flight is None, "one step at a time"
        start_quanta = self.clock.now_quanta()
        for copy in step.after:
            start_quanta = max(start_quanta, self.links.end_quanta(copy))
        ends_row = 1
        if step.decode is not None:
            if step.decode.newcomers:
                self._ends.welcome(step.decode)
            ends_row = self._ends.iterations_left(step.decode)
        pace = self.pace_of(step, start_quanta, 1 if self.outputs.has_tokens else min(step.repeat, ends_row))
        if step.until_ns < FOREVER_NS and pace.count > 1:
            pace = pace.truncated(pace.first_at_or_after(ns_to_quanta(step.until_ns)))
        self._num_launches += 1
        alarm = self.clock.at(pace.last_quanta, self._ring)
        self._in_flight = ticket = StepTicket(self._num_launches, step, pace, ends_row, alarm)
        return ticket

    def when_done(self, ticket: Ticket, callback: ResultCallback) -> None:
        """Hand the result of the step in flight to `callback` when it ends."""
        assert isinstance(ticket, StepTicket) and ticket is self._in_flight
        ticket.on_done = callback

    def interrupt(self) -> None:
        """Something was delivered: the run in flight ends at its first iteration that ends now or later."""
        ticket = self._in_flight
        if ticket is None or ticket.pace.count == 1:
            return
        repeats = ticket.pace.first_at_or_after(self.clock.now_quanta())
        if repeats < ticket.pace.count:
            ticket.pace = ticket.pace.truncated(repeats)
            ticket.alarm = self.clock.at(ticket.pace.last_quanta, self._ring)

    def _ring(self, alarm: Event) -> None:
        ticket = self._in_flight
        if ticket is None or alarm is not ticket.alarm:
            return
        assert ticket.on_done is not None
        self._in_flight = None
        self.busy_quanta += ticket.pace.last_quanta - ticket.pace.start_quanta
        ticket.on_done(self._result(ticket))

    def _result(self, ticket: StepTicket) -> StepResult:
        step, pace, batch = ticket.step, ticket.pace, ticket.step.decode
        ended: list[Sequence] = []
        if batch is not None and pace.count == ticket.ends_row:
            ended = self._ends.at(batch, batch.step + pace.count)
        without_token = []
        for chunk in step.chunks:
            if chunk.samples:
                left = self.outputs.length(chunk.sequence.request_id) - chunk.sequence.num_outputs
                if left <= 0:
                    without_token.append(chunk.sequence)
                elif left == 1:
                    ended.append(chunk.sequence)
        return StepResult(pace.count, pace, ended, tuple(without_token), self.outputs.sample(step))


class RowEnds:
    """At which batch step each decode row's output ends. Rows that left before are dropped when they come up."""

    __slots__ = ("_heap", "_last_row_index", "_outputs")

    def __init__(self, outputs: OutputModel) -> None:
        self._outputs = outputs
        self._heap: list[tuple[int, int, Sequence]] = []
        self._last_row_index = -1

    def welcome(self, batch: DecodeBatch) -> None:
        """Note the ends of the rows that joined since the last launch. After one that failed they come again."""
        for sequence in batch.newcomers:
            if sequence.row_index <= self._last_row_index:
                continue
            self._last_row_index = sequence.row_index
            left = self._outputs.length(sequence.request_id) - sequence.num_outputs
            heappush(self._heap, (sequence.joined_step + max(left, 1), sequence.row_index, sequence))

    def iterations_left(self, batch: DecodeBatch) -> int:
        """Iterations until the next row ends, that one included."""
        heap, rows = self._heap, batch.rows
        while True:
            end_step, row_index, sequence = heap[0]
            if sequence in rows and row_index == sequence.row_index:
                return end_step - batch.step
            heappop(heap)

    def at(self, batch: DecodeBatch, step: int) -> list[Sequence]:
        """Rows whose output ends at `step`, removed."""
        heap = self._heap
        ended = []
        while heap and heap[0][0] <= step:
            _, row_index, sequence = heappop(heap)
            if sequence in batch.rows and row_index == sequence.row_index:
                ended.append(sequence)
        return ended
