"""A trace drawn from an arrival process and a length model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

import numpy as np

from traces.generators.arrivals import Arrivals
from traces.generators.lengths import Lengths
from traces.generators.params import check_draw
from traces.lineage import Lineage
from traces.record import TraceRecord
from traces.report import ReadReport
from traces.trace import TraceStats, checked_span, scan_records


class SyntheticTrace:
    """Modelled requests, drawn chunk by chunk; see `Trace` for the contract.

    Gaps and lengths come from streams of their own (PCG64), so that the first n rows are the same however many are
    asked for.
    """

    format = "model"
    is_model = True
    closed_loop = False

    def __init__(
        self, name: str, arrivals: Arrivals, lengths: Lengths, rows: int, seed: int, notes: tuple[str, ...] = ()
    ) -> None:
        check_draw(rows, seed)
        self.name = name
        self.rows = rows
        self._arrivals = arrivals
        self._lengths = lengths
        self._seed = seed
        self._notes = notes
        self._stats: TraceStats | None = None

    @property
    def sha256(self) -> str:
        """SHA-256 of the canonical JSON of every parameter, seed and rows included."""
        params = {
            "arrivals": self._arrivals.params(),
            "lengths": self._lengths.params(),
            "rows": self.rows,
            "seed": self._seed,
        }
        return hashlib.sha256(json.dumps(params, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    @property
    def lineage(self) -> Lineage:
        """It is its own source."""
        return Lineage(self.name, self.sha256)

    @property
    def report(self) -> ReadReport:
        """All rows are kept; the notes say where the model comes from."""
        return ReadReport(self.format, self.name, self.rows, self.rows, notes=list(self._notes))

    def scan(self) -> TraceStats:
        """The facts of the trace, from one pass; later calls cost nothing."""
        if self._stats is None:
            self._stats = checked_span(self.name, scan_records(self.records()))
        return self._stats

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
