"""When rows of the decode batch reach the most tokens that they may produce."""

from __future__ import annotations

from heapq import heappop, heappush

from schedlab.batch import DecodeBatch
from schedlab.sequence import Sequence


class OutputLimits:
    """A heap of (step at which a row reaches its limit, row), with lazy deletion of rows that left before."""

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Sequence]] = []

    def add(self, sequence: Sequence) -> None:
        """A row has just joined with `num_outputs` outputs, fewer than it may have."""
        last_step = sequence.joined_step + sequence.max_outputs - sequence.num_outputs
        heappush(self._heap, (last_step, sequence.row_index, sequence))

    def next_step(self, batch: DecodeBatch) -> int:
        """The batch's step counter at which the next row reaches its limit. The batch must not be empty."""
        heap = self._heap
        while heap[0][2] not in batch.rows or heap[0][1] != heap[0][2].row_index:
            heappop(heap)
        return heap[0][0]

    def reached(self, batch: DecodeBatch) -> list[Sequence]:
        """Rows that are at their limit now, each reported once."""
        heap = self._heap
        done: list[Sequence] = []
        while heap and heap[0][0] <= batch.step:
            _, row_index, sequence = heappop(heap)
            if sequence in batch.rows and row_index == sequence.row_index:
                done.append(sequence)
        return done
