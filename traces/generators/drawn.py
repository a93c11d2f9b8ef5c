"""What every generated trace has in common: it is its own source, and its parameters are its identity."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from traces.generators.params import check_draw
from traces.lineage import Lineage
from traces.record import TraceRecord
from traces.report import ReadReport
from traces.trace import TraceStats, checked_span, scan_records


class DrawnTrace(ABC):
    """Requests drawn from a model with a seed; see `Trace` for the contract."""

    format = "model"
    is_model = True
    closed_loop = False

    def __init__(self, name: str, rows: int, seed: int, notes: tuple[str, ...]) -> None:
        check_draw(rows, seed)
        self.name = name
        self.rows = rows
        self._seed = seed
        self._notes = notes
        self._stats: TraceStats | None = None

    @abstractmethod
    def params(self) -> dict[str, Any]:
        """Everything but seed and rows that the requests follow from, as JSON values."""

    @abstractmethod
    def records(self) -> Iterator[TraceRecord]:
        """The same requests on every call."""

    @property
    def sha256(self) -> str:
        """SHA-256 of the canonical JSON of every parameter, seed and rows included."""
        params = {**self.params(), "rows": self.rows, "seed": self._seed}
        return hashlib.sha256(json.dumps(params, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    @property
    def lineage(self) -> Lineage:
        """It is its own source."""
        return Lineage(self.name, self.sha256)

    @property
    def report(self) -> ReadReport:
        """All rows are kept; the notes say what they were drawn from."""
        return ReadReport(self.format, self.name, self.rows, self.rows, notes=list(self._notes))

    def scan(self) -> TraceStats:
        """The facts of the trace, from one pass; later calls cost nothing."""
        if self._stats is None:
            self._stats = checked_span(self.name, scan_records(self.records()))
        return self._stats
