"""A mix of clients in the manner of ServeGen: few send most, and each is bursty in its own way."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from operator import itemgetter
from typing import Any

import numpy as np

from schedlab.errors import UsageError
from traces.generators.arrivals import Gamma
from traces.generators.drawn import DrawnTrace
from traces.generators.lengths import Lengths
from traces.generators.params import positive
from traces.record import TraceRecord

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


class ClientMix(DrawnTrace):
    """Requests of a mix, tenant by tenant on streams of their own."""

    def __init__(self, mix: Mix, lengths: Lengths, rows: int, seed: int, notes: tuple[str, ...] = ()) -> None:
        super().__init__("clients", rows, seed, notes)
        self._mix = mix
        self._lengths = lengths

    def params(self) -> dict[str, Any]:
        return {"mix": asdict(self._mix), "lengths": self._lengths.params()}

    def records(self) -> Iterator[TraceRecord]:
        """The same requests on every call, ties to the lowest client."""
        streams = [self._client(number, rate) for number, rate in enumerate(self._mix.rates())]
        return islice(heapq.merge(*streams, key=itemgetter(0)), self.rows)

    def _client(self, number: int, rate: float) -> Iterator[TraceRecord]:
        seeds = np.random.SeedSequence([self._seed, number]).spawn(2)
        gap_rng, length_rng = (np.random.Generator(np.random.PCG64(seed)) for seed in seeds)
        tenant = f"client-{number}"
        lengths = self._lengths.chunks(length_rng)
        for stamps in Gamma(rate, self._mix.cv).chunks(gap_rng):
            prompts, outputs = next(lengths)
            for arrival, prompt, output in zip(stamps.tolist(), prompts.tolist(), outputs.tolist(), strict=True):
                yield TraceRecord(arrival, prompt, output, tenant=tenant)
