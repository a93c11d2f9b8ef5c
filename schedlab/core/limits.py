"""When rows of the decode batch reach the most tokens that they may produce."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from schedlab.batch import DecodeBatch
from schedlab.sequence import Sequence

SLACK_ENTRIES = 1024
Entry = tuple[int, int, Sequence]


class OutputLimits:
    """A heap of (step at which a row reaches its limit, row). Rows that left before are deleted lazily, but are never
    more than the live ones and a constant."""

    __slots__ = ("_batch", "_heap")

    def __init__(self, batch: DecodeBatch) -> None:
        self._batch = batch
        self._heap: list[Entry] = []

    def add(self, sequence: Sequence) -> None:
        """A row has just joined with `num_outputs` outputs, fewer than it may have."""
        if len(self._heap) > 2 * len(self._batch.rows) + SLACK_ENTRIES:
            self._heap = [entry for entry in self._heap if self._is_live(entry)]
            heapify(self._heap)
        last_step = sequence.joined_step + sequence.max_outputs - sequence.num_outputs
        heappush(self._heap, (last_step, sequence.row_index, sequence))

    def next_step(self) -> int:
        """The batch's step counter at which the next row reaches its limit. The batch must not be empty."""
        heap = self._heap
        while not self._is_live(heap[0]):
            heappop(heap)
        return heap[0][0]

    def reached(self) -> list[Sequence]:
        """Rows that are at their limit now, each reported once."""
        heap, step = self._heap, self._batch.step
        done: list[Sequence] = []
        while heap and heap[0][0] <= step:
            entry = heappop(heap)
            if self._is_live(entry):
                done.append(entry[2])
        return done

    def _is_live(self, entry: Entry) -> bool:
        return entry[2] in self._batch.rows and entry[1] == entry[2].row_index
