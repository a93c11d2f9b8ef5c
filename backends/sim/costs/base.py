"""The cost model protocol: how long a step takes, as a pure function of integer batch aggregates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from schedlab.pace import Pace, SteppedPace


class CostModel(ABC):
    """Time of steps in quanta of 2^-20 ns. Holds no state that a call changes, but memos.

    `window_tokens` is the attention window of a model that has layers with one, else None. With a window the caller
    also gives `windowed_tokens`, the sum over decode rows of min(context, window).
    """

    window_tokens: int | None = None

    @abstractmethod
    def step_quanta(
        self,
        rows: int,
        context_tokens: int,
        chunks: Sequence[tuple[int, int]] = (),
        windowed_tokens: int | None = None,
    ) -> int:
        """One step; positive when it has a row or a chunk.

        *rows* decode rows have *context_tokens* KV tokens together before the step writes its own. A chunk
        (start, count) computes *count* prompt tokens behind *start* tokens already in KV.
        """

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Name, parameters and sources as JSON values, for `config.json`."""

    def decode_pace(
        self,
        rows: int,
        context_tokens: int,
        start_quanta: int,
        count: int,
        windowed_tokens: int | None = None,
        windowed_growth: int = 0,
    ) -> Pace:
        """*count* decode iterations from *start_quanta*; contexts grow by *rows* each.

        *windowed_growth* is the number of rows still below the window; the caller ends a run where a row crosses it.
        """

        def duration(i: int) -> int:
            done = i - 1
            inside = None if windowed_tokens is None else windowed_tokens + done * windowed_growth
            return self.step_quanta(rows, context_tokens + done * rows, (), inside)

        return SteppedPace(start_quanta, count, duration)
