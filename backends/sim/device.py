"""The simulated device: a compute stream in virtual time, with links for copies beside it."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from simpy.events import Event

from backends.sim.clock import Alarm, SimClock
from backends.sim.costs.base import CostModel
from backends.sim.links import CopyTicket, Links
from backends.sim.outputs import OutputModel
from schedlab.batch import DecodeBatch
from schedlab.device import FOREVER_NS, CopyKind, CopyOp, DeviceFacts, Step, StepResult, Ticket
from schedlab.pace import ArithmeticPace, Pace, ns_to_quanta, quanta_to_ns, slowed
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


class SimDevice:
    """Runs steps in the time that a cost model gives them and ends rows where an output model says.

    A decode step is repeated in closed form up to the first row's end, the caller's bounds, or a delivery.
    """

    def __init__(
        self, clock: SimClock, cost: CostModel, outputs: OutputModel, facts: DeviceFacts, links: Links | None = None
    ) -> None:
        self.clock = clock
        self.now_ns = clock.now_ns
        self.cost = cost
        self.outputs = outputs
        self.facts = facts
        self.links = links or Links(clock)
        self._ends = RowEnds(outputs)
        self._in_flight: StepTicket | None = None
        self._num_launches = 0
        self.busy_quanta = 0
        self._no_window: tuple[int | None, int] = (None if cost.window_tokens is None else 0, 0)

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

    def copy(self, op: CopyOp) -> CopyTicket:
        """Begin a copy on its link when the copies that it names have ended."""
        return self.links.copy(op)

    def move_slot(self, source: int, target: int) -> None:
        """Takes no time here: a slot's state is small beside a step's traffic."""

    def save_state(self, slot: int, snapshot: int, num_tokens: int) -> None:
        """Takes no time here: at the speed of the memory a state of 20 MB is copied in 10 us, a step takes 10 ms."""

    def restore_state(self, snapshot: int, slot: int) -> None:
        """Takes no time here either."""

    def copy_ns(self, kind: CopyKind, num_bytes: int) -> int:
        """Queueing and transfer on the link, as it stands."""
        return self.links.copy_ns(kind, num_bytes)

    def prefill_ns(self, num_tokens: int) -> int:
        """One step of that one chunk."""
        return quanta_to_ns(self.cost.step_quanta(0, 0, [(0, num_tokens)], self._no_window[0]))

    def output_keys(self, sequence: Sequence, first: int, last: int, block_size: int) -> list[int]:
        """Keys that the output model knows of blocks that outputs have filled."""
        return self.outputs.keys(sequence.request_id, first, last, block_size)

    def forget(self, sequence: Sequence) -> None:
        self.outputs.forget(sequence.request_id)

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

    def pace_of(self, step: Step, start_quanta: int, most: int) -> Pace:
        """When the iterations of a step end, at most `most` of them."""
        batch = step.decode
        rows = len(batch.rows) if batch is not None else 0
        context_tokens = batch.context_tokens if batch is not None else 0
        windowed_tokens, growing_rows = self._no_window
        if batch is not None and batch.windowed is not None:
            windowed_tokens, growing_rows, holds = batch.windowed.sum(rows, batch.step)
            most = min(most, holds)
        pace: Pace
        if step.chunks:
            chunks = [(start, num_tokens) for _, start, num_tokens, _ in step.chunks]
            quanta = self.cost.step_quanta(rows, context_tokens, chunks, windowed_tokens)
            pace = ArithmeticPace(start_quanta, 1, quanta)
        else:
            pace = self.cost.decode_pace(rows, context_tokens, start_quanta, most, windowed_tokens, growing_rows)
        if batch is None or not batch.far_blocks:
            return pace
        # Blocks on disk are read through both links before the rows that need them can go on; nothing overlaps.
        return slowed(pace, self.links.read_quanta(batch.far_blocks * self.facts.block_bytes, start_quanta))

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
