"""SLAI: prefill only while no row has waited too long for its next token (scheduler.md 4.1)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from sortedcontainers import SortedKeyList

from schedlab.config import SchedulerConfig
from schedlab.errors import UsageError
from schedlab.policies.base import StaticPolicy
from schedlab.policies.queues import WaitingQueue
from schedlab.policies.view import View
from schedlab.sequence import Sequence

MARGIN_PERCENT = 80


class FrontThenShortest:
    """The oldest request first, so that none starves; the others by prompt length, then arrival."""

    __slots__ = ("_arrivals", "_lengths")

    def __init__(self) -> None:
        self._arrivals: OrderedDict[Sequence, None] = OrderedDict()
        self._lengths = SortedKeyList(key=lambda sequence: (sequence.num_prompt_tokens, sequence.arrival_index))

    def __len__(self) -> int:
        return len(self._arrivals)

    def push(self, sequence: Sequence) -> None:
        self._arrivals[sequence] = None
        self._lengths.add(sequence)

    def remove(self, sequence: Sequence) -> None:
        del self._arrivals[sequence]
        self._lengths.remove(sequence)

    def candidates(self) -> Iterator[Sequence]:
        if not self._arrivals:
            return
        front = next(iter(self._arrivals))
        yield front
        for sequence in self._lengths:
            if sequence is not front:
                yield sequence


class Slai(StaticPolicy):
    """Holds prefill back once a row's newest token is older than 80 % of the deadline between tokens.

    Every plan inside a run of decode steps sees rows that have just got a token, so the gate is open in all of them
    and the refusal that let the run begin holds until a sequence ends.
    """

    name = "slai"

    def __init__(self, config: SchedulerConfig, tbt_deadline_ms: int = 100) -> None:
        super().__init__(config)
        if tbt_deadline_ms < 1:
            raise UsageError(f"tbt_deadline_ms is {tbt_deadline_ms}; give at least 1")
        self._patience_ns = tbt_deadline_ms * 1_000_000 * MARGIN_PERCENT // 100

    def waiting_queue(self) -> WaitingQueue:
        return FrontThenShortest()

    def compose(self, view: View) -> int:
        oldest = view.oldest_token_ns
        if oldest is not None and view.now_ns - oldest >= self._patience_ns:
            return 0
        return view.token_budget
