"""Arrival processes. Each gives an endless stream of chunks of arrival stamps: int64 nanoseconds, never decreasing.

A renewal process begins with a gap. Rates are requests per second, `cv` is the coefficient of variation of the gaps
(1 = Poisson).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from schedlab.errors import UsageError
from traces.fields import BIGGEST
from traces.generators.normal import CHUNK_ROWS, Floats, level_scores, uniform_of
from traces.generators.params import Parameters, between, check_table, positive

Stamps = NDArray[np.int64]
NS_PER_S = 1e9


class Arrivals(Protocol):
    """When requests come."""

    def params(self) -> dict[str, object]:
        """Everything that decides the stream but the seed, as JSON values."""

    def chunks(self, rng: np.random.Generator) -> Iterator[Stamps]:
        """Stamps, `CHUNK_ROWS` at a time, for ever."""


def gamma_gaps(rng: np.random.Generator, mean_s: float, cv: float) -> Floats:
    """Gaps of a gamma renewal process, seconds."""
    return rng.gamma(1.0 / cv**2, mean_s * cv**2, CHUNK_ROWS)


def weibull_gaps(rng: np.random.Generator, mean_s: float, shape: float) -> Floats:
    """Gaps of a Weibull renewal process, seconds."""
    return rng.weibull(shape, CHUNK_ROWS) * (mean_s / math.gamma(1.0 + 1.0 / shape))


def weibull_shape(cv: float) -> float:
    """The shape whose gaps have this coefficient of variation, by bisection. Reaches 0.02 to 1,000."""
    between("the CV of Weibull gaps", cv, 0.02, 1e3)
    low, high = 0.05, 100.0
    for _ in range(60):
        shape = math.sqrt(low * high)
        spread = math.exp(math.lgamma(1 + 2 / shape) - 2 * math.lgamma(1 + 1 / shape)) - 1
        low, high = (shape, high) if spread > cv**2 else (low, shape)
    return high


def stamps_of_gaps(gaps: Callable[[], Floats]) -> Iterator[Stamps]:
    """Sums of gaps in seconds, each gap rounded to the nanosecond; `BIGGEST` is what lies beyond it."""
    now = np.int64(0)
    while True:
        gaps_ns = np.minimum(np.rint(gaps() * NS_PER_S), BIGGEST)
        fits = float(now) + np.cumsum(gaps_ns) < BIGGEST
        # Where the sum of the floats fits, the sum of the integers cannot overflow.
        stamps = np.where(fits, now + np.cumsum(gaps_ns.astype(np.int64)), BIGGEST)
        now = stamps[-1]
        yield stamps


@dataclass(frozen=True)
class Poisson(Parameters):
    """Independent requests."""

    rate: float
    kind: ClassVar[str] = "poisson"

    def __post_init__(self) -> None:
        positive("rate", self.rate)

    def chunks(self, rng: np.random.Generator) -> Iterator[Stamps]:
        return stamps_of_gaps(lambda: rng.exponential(1.0 / self.rate, CHUNK_ROWS))


@dataclass(frozen=True)
class Gamma(Parameters):
    """Gamma gaps: the usual model of bursty arrivals."""

    rate: float
    cv: float
    kind: ClassVar[str] = "gamma"

    def __post_init__(self) -> None:
        positive("rate", self.rate)
        between("the CV of gamma gaps", self.cv, 1e-6, 1e6)

    def chunks(self, rng: np.random.Generator) -> Iterator[Stamps]:
        return stamps_of_gaps(lambda: gamma_gaps(rng, 1.0 / self.rate, self.cv))


@dataclass(frozen=True)
class Weibull(Parameters):
    """Weibull gaps; a shape below 1 is bursty."""

    rate: float
    shape: float
    kind: ClassVar[str] = "weibull"

    def __post_init__(self) -> None:
        positive("rate", self.rate)
        positive("shape", self.shape)

    def chunks(self, rng: np.random.Generator) -> Iterator[Stamps]:
        return stamps_of_gaps(lambda: weibull_gaps(rng, 1.0 / self.rate, self.shape))


@dataclass(frozen=True)
class EmpiricalGaps(Parameters):
    """Gaps from a quantile table, with a slow level that makes short gaps follow short ones (see `level_scores`).

    Between two points of the table the logarithm of the gap is interpolated; all gaps are then scaled so that their
    mean is `mean_gap_ns`. The first request comes at 0.
    """

    probabilities: tuple[float, ...]
    gaps_ns: tuple[float, ...]
    mean_gap_ns: float
    level_weight: float = 0.0
    level_decay: float = 0.0
    kind: ClassVar[str] = "empirical"

    def __post_init__(self) -> None:
        check_table(self.probabilities, self.gaps_ns)
        positive("mean_gap_ns", self.mean_gap_ns)
        if not (0.0 <= self.level_weight <= 1.0 and 0.0 <= self.level_decay < 1.0):
            raise UsageError("level_weight must lie in 0..1 and level_decay in 0..1, 1 excluded")

    def chunks(self, rng: np.random.Generator) -> Iterator[Stamps]:
        logs = np.log(np.maximum(np.array(self.gaps_ns), 1.0))
        even = np.exp(np.interp((np.arange(200_000) + 0.5) / 200_000, self.probabilities, logs))
        scale = self.mean_gap_ns / float(even.mean())
        now = np.int64(0)
        first = True
        for scores in level_scores(rng, self.level_weight, self.level_decay):
            gaps = np.rint(np.exp(np.interp(uniform_of(scores), self.probabilities, logs)) * scale).astype(np.int64)
            if first:
                gaps[0], first = 0, False
            stamps = now + np.cumsum(gaps)
            now = stamps[-1]
            yield stamps
