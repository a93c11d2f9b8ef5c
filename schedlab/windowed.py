"""The sum of min(length, window) over decode rows, for models whose layers look back only so far."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

from schedlab.sequence import Sequence


class WindowedSum(NamedTuple):
    """The sum now, how many rows still grow it, and for how many iterations that number holds (at least 1)."""

    tokens: int
    growing_rows: int
    iterations: int


class WindowedContext:
    """Kept as rows join and leave; a row crosses the window once, found by a heap with lazy deletion."""

    __slots__ = ("_below", "_below_base", "_crossings", "window_tokens")

    def __init__(self, window_tokens: int) -> None:
        self.window_tokens = window_tokens
        self._below: dict[Sequence, None] = {}
        self._below_base = 0
        self._crossings: list[tuple[int, int, Sequence]] = []

    def join(self, sequence: Sequence) -> None:
        """A row has joined the batch."""
        if sequence.joined_len < self.window_tokens:
            self._below[sequence] = None
            self._below_base += sequence.joined_len - sequence.joined_step
            crossing_step = sequence.joined_step + self.window_tokens - sequence.joined_len
            heappush(self._crossings, (crossing_step, sequence.row_index, sequence))

    def leave(self, sequence: Sequence) -> None:
        """A row leaves the batch."""
        if sequence in self._below:
            del self._below[sequence]
            self._below_base -= sequence.joined_len - sequence.joined_step

    def sum(self, rows: int, step: int) -> WindowedSum:
        """Over `rows` rows, before the iteration that follows batch step `step`."""
        crossings = self._crossings
        while crossings and (crossings[0][0] <= step or not self._is_below(crossings[0])):
            crossing = heappop(crossings)
            if self._is_below(crossing):
                self.leave(crossing[2])
        tokens = self._below_base + len(self._below) * step + self.window_tokens * (rows - len(self._below))
        return WindowedSum(tokens, len(self._below), crossings[0][0] - step if crossings else 1 << 40)

    def _is_below(self, crossing: tuple[int, int, Sequence]) -> bool:
        return crossing[2] in self._below and crossing[1] == crossing[2].row_index
