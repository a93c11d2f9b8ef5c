"""What a trace shows of one window of time: kept as plain numbers, made into slices when it is written."""

from __future__ import annotations

from itertools import chain, pairwise
from typing import NamedTuple, TypeVar

from schedlab.sequence import NOT_YET

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
    cached_blocks: int


class PhaseSlice(NamedTuple):
    """A request's time in one phase; `ended` says how the request ended with it, if it did.

    `cached_tokens` of its prompt were not computed in this phase since the prefix cache had them.
    """

    start_ns: int
    end_ns: int
    request_id: int
    name: str
    ended: str
    cached_tokens: int = 0


class CopySlice(NamedTuple):
    """A copy's time on its link; `error` says why it failed, if it did."""

    start_ns: int
    end_ns: int
    link: str
    request_id: int
    num_bytes: int
    error: str


class Preemption(NamedTuple):
    """The moment at which a request lost its seat."""

    start_ns: int
    request_id: int
    freed_blocks: int
    reason: str


_Slice = TypeVar("_Slice", StepSlice, PhaseSlice, CopySlice)
_Kept = TypeVar("_Kept")


class RequestSpan(NamedTuple):
    """A request as far as it has got by `end_ns`; `turns` are the phases that began with and after a preemption."""

    request_id: int
    arrival_ns: int
    admitted_ns: int
    first_token_ns: int
    end_ns: int
    ended: str
    turns: tuple[tuple[int, str], ...]
    cached_tokens: int = 0

    def phases(self) -> list[PhaseSlice]:
        """Its phases in order of time; an empty one where two stamps are equal."""
        firsts = ((self.arrival_ns, "queued"), (self.admitted_ns, "prefill"), (self.first_token_ns, "decode"))
        turns = [turn for turn in chain(firsts, self.turns) if turn[0] != NOT_YET]
        turns.sort(key=lambda turn: turn[0])
        slices = [
            PhaseSlice(start_ns, end_ns, self.request_id, name, "", self.cached_tokens if name == "prefill" else 0)
            for (start_ns, name), (end_ns, _) in pairwise([*turns, (self.end_ns, "")])
        ]
        slices[-1] = slices[-1]._replace(ended=self.ended)
        return slices


class Slices(NamedTuple):
    """What is written of a window; `left_out` found no room."""

    steps: list[StepSlice]
    phases: list[PhaseSlice]
    copies: list[CopySlice]
    preemptions: list[Preemption]
    left_out: int

    @property
    def num_written(self) -> int:
        """How many are written."""
        return len(self.steps) + len(self.phases) + len(self.copies) + len(self.preemptions)


class TraceWindow:
    """The time from `start_ns` to `end_ns`: steps that touch it, requests that ended in it or lived at its end.

    Attributes:
        tokens: prompt and output tokens processed in the window.
    """

    def __init__(self, start_ns: int, end_ns: int, most_slices: int) -> None:
        self.start_ns = start_ns
        self.end_ns = end_ns
        self.tokens = 0
        self._most_slices = most_slices
        self._left_out = 0
        self._steps: list[tuple[int, ...]] = []
        self._requests: list[RequestSpan] = []
        self._copies: list[CopySlice] = []
        self._preemptions: list[Preemption] = []

    def add_step(self, step: tuple[int, ...]) -> None:
        """Add the fields of a StepSlice."""
        if len(self._steps) < self._most_slices:
            self._steps.append(step)
        else:
            self._left_out += 1

    def add_request(self, span: RequestSpan) -> None:
        self._add(self._requests, span)

    def add_copy(self, copy: CopySlice) -> None:
        self._add(self._copies, copy)

    def add_preemption(self, preemption: Preemption) -> None:
        self._add(self._preemptions, preemption)

    def leave_out(self) -> None:
        """Count something that found no room before it came here."""
        self._left_out += 1

    def _add(self, kept: list[_Kept], what: _Kept) -> None:
        if len(kept) < self._most_slices:
            kept.append(what)
        else:
            self._left_out += 1

    def slices(self) -> Slices:
        """Everything clipped to the window, the earliest `most_slices` of all kinds together."""
        steps = self._clipped([StepSlice(*step) for step in self._steps])
        phases = self._clipped([phase for span in self._requests for phase in span.phases()])
        copies = self._clipped(self._copies)
        preemptions = [event for event in self._preemptions if self.start_ns < event.start_ns <= self.end_ns]
        everything: list[StepSlice | PhaseSlice | CopySlice | Preemption] = [*steps, *phases, *copies, *preemptions]
        everything.sort(key=lambda item: item.start_ns)
        kept = everything[: self._most_slices]
        return Slices(
            [item for item in kept if isinstance(item, StepSlice)],
            [item for item in kept if isinstance(item, PhaseSlice)],
            [item for item in kept if isinstance(item, CopySlice)],
            [item for item in kept if isinstance(item, Preemption)],
            self._left_out + len(everything) - len(kept),
        )

    def _clipped(self, slices: list[_Slice]) -> list[_Slice]:
        return [clipped for item in slices if (clipped := self._clip(item)).start_ns < clipped.end_ns]

    def _clip(self, item: _Slice) -> _Slice:
        if self.start_ns <= item.start_ns and item.end_ns <= self.end_ns:
            return item
        return item._replace(start_ns=max(item.start_ns, self.start_ns), end_ns=min(item.end_ns, self.end_ns))
