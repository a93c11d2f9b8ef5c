"""Requests of many clients, each with a rate that changes by windows and with gaps of its own shape, as ServeGen
describes them.

A client is one renewal process in operational time (the integral of its rate), so that a gap may span windows and a
scaled-down rate keeps the shape of the gaps. The first gap is drawn from the equilibrium distribution: the process
has been running for ever, and the expected number of requests is rate x time however bursty the gaps are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traces.formats.servegen import Client, Window, load_lengths
from traces.generators.normal import Floats
from traces.record import TraceRecord

_NS_PER_S = 1e9
_LONGEST_TOKENS = 1 << 30
NO_LENGTHS = "no length data of the client at that time"
EMPTY_PROMPT = "empty prompt"


@dataclass(frozen=True)
class Distribution:
    """Token counts with their cumulated probabilities."""

    values: NDArray[np.int64]
    cumulated: Floats

    @classmethod
    def of(cls, probabilities: dict[float, float]) -> Distribution:
        """From {value: probability}, scaled to sum 1; ValueError for a negative or huge number, or for zeros only."""
        values = np.array(sorted(probabilities), dtype=np.float64)
        weights = np.array([probabilities[value] for value in sorted(probabilities)], dtype=np.float64)
        in_range = ((values >= 0) & (values < _LONGEST_TOKENS) & (weights >= 0) & np.isfinite(weights)).all()
        if not in_range or not 0 < weights.sum() < np.inf:
            raise ValueError("values and probabilities must be numbers from 0 up, not all 0")
        return cls(np.rint(values).astype(np.int64), np.cumsum(weights) / weights.sum())

    def draw(self, rng: np.random.Generator, rows: int) -> NDArray[np.int64]:
        """Independent values."""
        at = np.searchsorted(self.cumulated, rng.random(rows), side="right")
        return self.values[np.minimum(at, len(self.values) - 1)]


class _Stream:
    """The arrivals of one client; `_owed` is the operational time up to the next one."""

    def __init__(self, client: Client, seed: int) -> None:
        self.client = client
        self.rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, client.number])))
        self._owed: float | None = None
        self._windows = {window.start_s: window for window in client.windows}
        self._lengths_at: dict[float, tuple[Distribution, Distribution] | None] = {}

    def arrivals_s(self, window_start_s: float, begin_s: float, end_s: float, scale: float) -> Floats:
        """Arrivals in one window or a part of it, in seconds of the recording."""
        window = self._windows.get(window_start_s)
        if window is None or window.rate <= 0:
            return np.empty(0)
        rate = window.rate * scale
        span = rate * (end_s - begin_s)
        if self._owed is None:
            self._owed = _first_gap(self.rng, window)
        if self._owed > span:
            self._owed -= span
            return np.empty(0)
        drawn = [np.array([self._owed])]
        rows = int(span) + 16
        while drawn[-1][-1] <= span:
            drawn.append(drawn[-1][-1] + np.cumsum(_gaps(self.rng, window, rows)))
            rows *= 2
        times = np.concatenate(drawn)
        inside = int(np.searchsorted(times, span, side="right"))
        self._owed = float(times[inside] - span)
        return begin_s + times[:inside] / rate

    def lengths(self, at_s: float) -> tuple[Distribution, Distribution] | None:
        """The length distributions of a window, loaded once."""
        if at_s not in self._lengths_at:
            assert self.client.dataset is not None
            self._lengths_at = {at_s: load_lengths(self.client.dataset, at_s)}
        return self._lengths_at[at_s]


def draw(
    clients: Sequence[Client],
    window_s: float,
    start_s: float,
    duration_s: float,
    scale: float,
    seed: int,
    dropped: dict[str, int],
) -> Iterator[TraceRecord]:
    """Requests in order of arrival, ties to the lowest client, counted from `start_s`; what is not kept is counted in
    `dropped`.
    """
    streams = [_Stream(client, seed) for client in clients]
    end_s = start_s + duration_s
    window_start_s = math.floor(start_s / window_s) * window_s
    while window_start_s < end_s:
        begin_s, until_s = max(start_s, window_start_s), min(end_s, window_start_s + window_s)
        records: list[TraceRecord] = []
        for stream in streams:
            arrivals = stream.arrivals_s(window_start_s, begin_s, until_s, scale) - start_s
            if len(arrivals):
                records += _records(stream, window_start_s, arrivals, dropped)
        yield from sorted(records, key=lambda record: record.arrival_ns)
        window_start_s += window_s


def _records(stream: _Stream, window_start_s: float, arrivals_s: Floats, dropped: dict[str, int]) -> list[TraceRecord]:
    lengths = stream.lengths(window_start_s)
    if lengths is None:
        dropped[NO_LENGTHS] = dropped.get(NO_LENGTHS, 0) + len(arrivals_s)
        return []
    prompts, outputs = (part.draw(stream.rng, len(arrivals_s)).tolist() for part in lengths)
    stamps = np.rint(arrivals_s * _NS_PER_S).astype(np.int64).tolist()
    tenant = f"client-{stream.client.number}"
    kept = [
        TraceRecord(arrival, prompt, output, tenant=tenant)
        for arrival, prompt, output in zip(stamps, prompts, outputs, strict=True)
        if prompt
    ]
    if len(kept) < len(stamps):
        dropped[EMPTY_PROMPT] = dropped.get(EMPTY_PROMPT, 0) + len(stamps) - len(kept)
    return kept


def _gaps(rng: np.random.Generator, window: Window, rows: int) -> Floats:
    """Gaps with mean 1."""
    if window.weibull:
        return _weibull(rng.exponential(1.0, rows), window.shape)
    return rng.gamma(window.shape, 1.0 / window.shape, rows)


def _first_gap(rng: np.random.Generator, window: Window) -> float:
    """What is left of a gap that a random moment falls into."""
    if window.weibull:
        whole = float(_weibull(rng.gamma(1.0 + 1.0 / window.shape, 1.0, 1), window.shape)[0])
    else:
        whole = float(rng.gamma(window.shape + 1.0, 1.0 / window.shape))
    return float(rng.random()) * whole


def _weibull(powers: Floats, shape: float) -> Floats:
    """Weibull gaps with mean 1 from (gap / scale) ^ shape; in logarithms, since the scale of a small shape is below
    any float.
    """
    return np.exp(np.log(np.maximum(powers, 1e-300)) / shape - math.lgamma(1.0 + 1.0 / shape))
