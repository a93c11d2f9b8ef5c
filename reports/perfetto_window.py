"""What a trace shows of one window of time: bounded, clipped to the window, in plain numbers."""

from __future__ import annotations

from typing import NamedTuple

MOST_SLICES = 100_000


class StepSlice(NamedTuple):
    """One step of the device, possibly a decode run of many iterations. Times are in nanoseconds."""

    start_ns: int
    end_ns: int
    rows: int
    prefill_tokens: int
    iterations: int
    context_tokens: int
    kv_blocks: int
    running: int
    waiting: int
    parked: int


class PhaseSlice(NamedTuple):
    """A request's time in one phase; `ended` says how the request ended with it, if it did."""

    request_id: int
    name: str
    start_ns: int
    end_ns: int
    ended: str


class Preemption(NamedTuple):
    """The moment at which a request lost its seat."""

    now_ns: int
    request_id: int
    freed_blocks: int
    reason: str


class TraceWindow:
    """The slices of the half-open time (start_ns, end_ns], in order of their ends, at most `most_slices` of all kinds.

    Attributes:
        tokens: prompt and output tokens processed in the window.
        left_out: slices that found no room.
    """

    def __init__(self, start_ns: int, end_ns: int, most_slices: int = MOST_SLICES) -> None:
        self.start_ns = start_ns
        self.end_ns = end_ns
        self.tokens = 0
        self.left_out = 0
        self.steps: list[StepSlice] = []
        self.phases: list[PhaseSlice] = []
        self.preemptions: list[Preemption] = []
        self._room = most_slices

    @property
    def num_slices(self) -> int:
        return len(self.steps) + len(self.phases) + len(self.preemptions)

    def add_step(self, step: StepSlice) -> None:
        if step.start_ns < self.start_ns or step.end_ns > self.end_ns:
            step = step._replace(start_ns=max(step.start_ns, self.start_ns), end_ns=min(step.end_ns, self.end_ns))
        if step.start_ns < step.end_ns and self._has_room():
            self.steps.append(step)

    def add_phase(self, phase: PhaseSlice) -> None:
        start_ns, end_ns = max(phase.start_ns, self.start_ns), min(phase.end_ns, self.end_ns)
        if start_ns < end_ns and self._has_room():
            self.phases.append(phase._replace(start_ns=start_ns, end_ns=end_ns))

    def add_preemption(self, preemption: Preemption) -> None:
        if self.start_ns < preemption.now_ns <= self.end_ns and self._has_room():
            self.preemptions.append(preemption)

    def _has_room(self) -> bool:
        if self._room:
            self._room -= 1
            return True
        self.left_out += 1
        return False
