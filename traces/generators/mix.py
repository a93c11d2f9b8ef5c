"""A mix of clients in the manner of ServeGen: few send most, and each is bursty in its own way."""

from __future__ import annotations

import hashlib
import heapq
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from operator import itemgetter

import numpy as np

from schedlab.errors import UsageError
from traces.generators.arrivals import Gamma
from traces.generators.lengths import Lengths
from traces.generators.params import check_draw, positive
from traces.lineage import Lineage
from traces.record import TraceRecord
from traces.report import ReadReport
from traces.trace import TraceStats, checked_span, scan_records

# Each client keeps a chunk of its requests in memory.
MOST_CLIENTS = 1_000


@dataclass(frozen=True)
class Mix:
    """`clients` of them share `rate`:

    client i (from 1) gets a share as 1 / i^skew. Their gaps are gamma with this cv.
    """

    rate: float
    clients: int
    skew: float
    cv: float

    def __post_init__(self) -> None:
        positive("rate", self.rate)
        if not (1 <= self.clients <= MOST_CLIENTS and 0.0 <= self.skew < 20.0):
            raise UsageError(
                f"clients {self.clients:g}, skew {self.skew:g}: 1 to {MOST_CLIENTS} clients, and a skew in 0..20"
            )

    def rates(self) -> list[float]:
        """Requests per second of each client."""
        weights = [(client + 1) ** -self.skew for client in range(self.clients)]
        total = sum(weights)
        return [self.rate * weight / total for weight in weights]


class ClientMix:
    """Requests of a mix, tenant by tenant on streams of their own; see `Trace` for the contract."""

    format = "model"
    is_model = True
    closed_loop = False

    def __init__(self, mix: Mix, lengths: Lengths, rows: int, seed: int, notes: tuple[str, ...] = ()) -> None:
        check_draw(rows, seed)
        self.name = "clients"
        self._mix = mix
        self._lengths = lengths
        self._rows = rows
        self._seed = seed
        self._notes = notes
        self._stats: TraceStats | None = None

    @property
    def sha256(self) -> str:
        """SHA-256 of the canonical JSON of every parameter, seed and rows included."""
        params = {"mix": asdict(self._mix), "lengths": self._lengths.params(), "rows": self._rows, "seed": self._seed}
        return hashlib.sha256(json.dumps(params, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    @property
    def lineage(self) -> Lineage:
        """It is its own source."""
        return Lineage(self.name, self.sha256)

    @property
    def report(self) -> ReadReport:
        """All rows are kept; the notes say what they were drawn from."""
        return ReadReport(self.format, self.name, self._rows, self._rows, notes=list(self._notes))

    def scan(self) -> TraceStats:
        """The facts of the trace, from one pass; later calls cost nothing."""
        if self._stats is None:
            self._stats = checked_span(self.name, scan_records(self.records()))
        return self._stats

    def records(self) -> Iterator[TraceRecord]:
        """The same requests on every call, ties to the lowest client."""
        streams = [self._client(number, rate) for number, rate in enumerate(self._mix.rates())]
        return islice(heapq.merge(*streams, key=itemgetter(0)), self._rows)

    def _client(self, number: int, rate: float) -> Iterator[TraceRecord]:
        seeds = np.random.SeedSequence([self._seed, number]).spawn(2)
        gap_rng, length_rng = (np.random.Generator(np.random.PCG64(seed)) for seed in seeds)
        tenant = f"client-{number}"
        lengths = self._lengths.chunks(length_rng)
        for stamps in Gamma(rate, self._mix.cv).chunks(gap_rng):
            prompts, outputs = next(lengths)
            for arrival, prompt, output in zip(stamps.tolist(), prompts.tolist(), outputs.tolist(), strict=True):
                yield TraceRecord(arrival, prompt, output, tenant=tenant)
