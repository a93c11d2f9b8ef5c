"""A simulated device whose times are those of a recording: it does what a real device did, when that did it."""

from __future__ import annotations

from backends.sim.clock import SimClock
from backends.sim.costs.told import Told
from backends.sim.device import SimDevice, StepTicket
from backends.sim.links import CopyTicket
from backends.sim.outputs import OutputModel
from backends.sim.recording import CopyShape, Question, Reader, Recording, StepShape
from schedlab.device import CopyKind, CopyOp, DeviceFacts, Step, StepResult
from schedlab.errors import DeviceFault
from schedlab.pace import Pace, SteppedPace, ns_to_quanta


class RecordedDevice(SimDevice):
    """Every question must be the one that was recorded, in the same order.

    Raises Diverged from `launch`, `copy`, `copy_ns` and `prefill_ns` when it is another one.
    """

    def __init__(self, clock: SimClock, outputs: OutputModel, facts: DeviceFacts, recording: Recording) -> None:
        super().__init__(clock, Told(), outputs, facts)
        self.reader = Reader(recording)

    def pace_of(self, step: Step, start_quanta: int, most: int) -> Pace:
        """As long as each took; no longer than the recorded steps are repetitions of the first."""
        recorded = self.reader.steps(StepShape.of(step), most)
        return SteppedPace(start_quanta, len(recorded), lambda i: ns_to_quanta(recorded[i - 1].duration_ns))

    def copy(self, op: CopyOp) -> CopyTicket:
        recorded = self.reader.copy(CopyShape.of(op))
        return self.links.copy_for(op, ns_to_quanta(recorded.duration_ns), recorded.error)

    def copy_ns(self, kind: CopyKind, num_bytes: int) -> int:
        return self.reader.answer_ns(Question.of_copy(self.now_ns(), self.reader.num_copies, kind, num_bytes))

    def prefill_ns(self, num_tokens: int) -> int:
        return self.reader.answer_ns(Question.of_prefill(self.now_ns(), self.reader.num_copies, num_tokens))

    def _result(self, ticket: StepTicket) -> StepResult:
        fault = self.reader.pass_steps(ticket.pace.count)
        if fault is not None:
            return StepResult(1, ticket.pace, [], fault=DeviceFault(fault))
        return super()._result(ticket)
