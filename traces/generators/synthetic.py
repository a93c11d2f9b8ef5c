"""A trace drawn from an arrival process and a length model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from traces.generators.arrivals import Arrivals
from traces.generators.drawn import DrawnTrace
from traces.generators.lengths import Lengths
from traces.record import TraceRecord


class SyntheticTrace(DrawnTrace):
    """Modelled requests, drawn chunk by chunk.

    Gaps and lengths come from streams of their own (PCG64), so that the first n rows are the same however many are
    asked for.
    """

    def __init__(
        self, name: str, arrivals: Arrivals, lengths: Lengths, rows: int, seed: int, notes: tuple[str, ...] = ()
    ) -> None:
        super().__init__(name, rows, seed, notes)
        self._arrivals = arrivals
        self._lengths = lengths

    def params(self) -> dict[str, Any]:
        return {"arrivals": self._arrivals.params(), "lengths": self._lengths.params()}

    def records(self) -> Iterator[TraceRecord]:
        """The same requests on every call."""
        gap_seed, length_seed = np.random.SeedSequence(self._seed).spawn(2)
        stamps = self._arrivals.chunks(np.random.Generator(np.random.PCG64(gap_seed)))
        lengths = self._lengths.chunks(np.random.Generator(np.random.PCG64(length_seed)))
        left = self.rows
        while left:
            arrival_ns = next(stamps)[:left].tolist()
            prompts, outputs = next(lengths)
            left -= len(arrival_ns)
            yield from map(TraceRecord, arrival_ns, prompts.tolist(), outputs.tolist())
