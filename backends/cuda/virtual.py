"""The real device in virtual time: its steps and copies are carried out, and a simulated clock says when they end.

Outputs end where a script says, whatever the model samples, so that a run can be repeated without the model.
"""

from __future__ import annotations

from time import perf_counter_ns

from backends.cuda.device import CudaDevice
from backends.sim.clock import SimClock
from backends.sim.costs.base import CostModel
from backends.sim.costs.told import Told
from backends.sim.device import SimDevice, StepTicket
from backends.sim.links import CopyTicket, Links
from backends.sim.outputs import OutputModel
from backends.sim.recording import CopyShape, Question, RecordedCopy, RecordedStep, Recording, StepShape
from schedlab.device import CopyKind, CopyOp, DeviceFacts, Step, StepResult
from schedlab.pace import ArithmeticPace, Pace, ns_to_quanta
from schedlab.sequence import Sequence


class VirtualDevice(SimDevice):
    """Carries out every step and copy on `real` when it begins, in the time that the cost model and the links give.

    Nothing is under way on the real device when a call returns, so nothing there has to wait for a ticket.

    Args:
        outputs: where each output ends, and its tokens if the script has some; else the model's tokens are told.
    """

    def __init__(
        self,
        clock: SimClock,
        cost: CostModel,
        outputs: OutputModel,
        facts: DeviceFacts,
        links: Links | None,
        real: CudaDevice,
    ) -> None:
        super().__init__(clock, cost, outputs, facts, links)
        self.real = real
        self._carried_out: StepResult | None = None

    def pace_of(self, step: Step, start_quanta: int, most: int) -> Pace:
        self._carry_out_step(step)
        return super().pace_of(step, start_quanta, 1)

    def copy(self, op: CopyOp) -> CopyTicket:
        error = self._carry_out_copy(op)
        # What a model says of a copy that went wrong: nothing; it is over at once.
        return self.links.copy_for(op, 1, error) if error else super().copy(op)

    def move_slot(self, source: int, target: int) -> None:
        self.real.move_slot(source, target)

    def forget(self, sequence: Sequence) -> None:
        super().forget(sequence)
        self.real.forget(sequence)

    def _carry_out_step(self, step: Step) -> StepResult:
        for chunk in step.chunks:
            if (following := self.outputs.following(chunk.sequence.request_id)) is not None:
                self.real.histories.expect(chunk.sequence.request_id, following)
        done = self._carried_out = self.real.wait(self.real.launch(step._replace(after=())))
        return done

    def _carry_out_copy(self, op: CopyOp) -> str:
        """Copy now; why it failed, or ""."""
        ticket = self.real.copy(op._replace(after=()))
        self.real.finish_copies((ticket,))
        return ticket.error

    def _result(self, ticket: StepTicket) -> StepResult:
        done, self._carried_out = self._carried_out, None
        assert done is not None
        if done.fault is not None:
            return StepResult(1, ticket.pace, [], fault=done.fault)
        result = super()._result(ticket)
        if result.tokens is None:
            result.tokens, result.logprobs = done.tokens, done.logprobs
        return result


class MeasuredDevice(VirtualDevice):
    """The clock advances by the measured time of each step and copy, and all of it goes into `recording`."""

    def __init__(
        self, clock: SimClock, outputs: OutputModel, facts: DeviceFacts, real: CudaDevice, recording: Recording
    ) -> None:
        super().__init__(clock, Told(), outputs, facts, None, real)
        self.recording = recording

    def pace_of(self, step: Step, start_quanta: int, most: int) -> Pace:
        shape, begin_ns = StepShape.of(step), perf_counter_ns()
        done = self._carry_out_step(step)
        elapsed_ns = max(1, perf_counter_ns() - begin_ns)
        self.recording.steps.append(RecordedStep(shape, elapsed_ns, None if done.fault is None else str(done.fault)))
        return ArithmeticPace(start_quanta, 1, ns_to_quanta(elapsed_ns))

    def copy(self, op: CopyOp) -> CopyTicket:
        begin_ns = perf_counter_ns()
        error = self._carry_out_copy(op)
        elapsed_ns = max(1, perf_counter_ns() - begin_ns)
        self.recording.copies.append(RecordedCopy(CopyShape.of(op), elapsed_ns, error))
        return self.links.copy_for(op, ns_to_quanta(elapsed_ns), error)

    def copy_ns(self, kind: CopyKind, num_bytes: int) -> int:
        """What the real device says, behind the copies that have the link in virtual time."""
        asked = Question.of_copy(self.now_ns(), len(self.recording.copies), kind, num_bytes)
        return self._answered(asked, self.links.queue_ns(kind) + self.real.copy_ns(kind, num_bytes))

    def prefill_ns(self, num_tokens: int) -> int:
        asked = Question.of_prefill(self.now_ns(), len(self.recording.copies), num_tokens)
        return self._answered(asked, self.real.prefill_ns(num_tokens))

    def _answered(self, asked: Question, answer_ns: int) -> int:
        self.recording.answers_ns[asked] = answer_ns
        return answer_ns
