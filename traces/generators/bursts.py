"""Arrival processes whose rate changes with time: bursts with silences between them, and days."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import ClassVar

import numpy as np

from schedlab.errors import UsageError
from traces.fields import BIGGEST
from traces.generators.arrivals import NS_PER_S, Stamps
from traces.generators.normal import CHUNK_ROWS, Floats
from traces.generators.params import Parameters, positive

_PHASES = 1_024
# Bursts without a request are drawn too, so a chunk of requests costs this many of them at most.
_FEWEST_PER_BURST = 0.1
_STEPS = 4_096


@dataclass(frozen=True)
class OnOff(Parameters):
    """Poisson requests in bursts:

    on for `on_s` and silent for `off_s` on average, both exponential. `rate` is the mean over both.
    """

    rate: float
    on_s: float
    off_s: float
    kind: ClassVar[str] = "onoff"

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            positive(name, value)
        if self.rate * (self.on_s + self.off_s) < _FEWEST_PER_BURST:
            raise UsageError(
                f"onoff: {self.rate:g} requests/s give under {_FEWEST_PER_BURST} requests a burst with bursts every "
                f"{self.on_s + self.off_s:g} s; raise the rate, or take poisson"
            )

    def chunks(self, rng: np.random.Generator) -> Iterator[Stamps]:
        """Requests are laid out in the time that is on; then the silences that came before each are put in between."""
        mean_gap_s = self.on_s / (self.on_s + self.off_s) / self.rate
        on_now = silent = 0.0
        ends, silences = np.empty(0), np.empty(0)
        while True:
            on_times = on_now + np.cumsum(rng.exponential(mean_gap_s, CHUNK_ROWS))
            on_now = float(on_times[-1])
            while not len(ends) or ends[-1] < on_now:
                start = ends[-1] if len(ends) else 0.0
                ends = np.append(ends, start + np.cumsum(rng.exponential(self.on_s, _PHASES)))
                silences = np.append(silences, rng.exponential(self.off_s, _PHASES))
            before = np.concatenate(([0.0], np.cumsum(silences)))
            past = np.searchsorted(ends, on_times, side="left")
            yield _stamps(on_times + silent + before[past])
            silent += float(before[past[-1]])
            ends, silences = ends[past[-1] :], silences[past[-1] :]


@dataclass(frozen=True)
class Diurnal(Parameters):
    """Poisson requests whose rate swings by `amplitude` (0..1) around `rate` as a sine of `period_s`, rising from the
    mean at time 0.
    """

    rate: float
    amplitude: float
    period_s: float = 86_400.0
    kind: ClassVar[str] = "diurnal"

    def __post_init__(self) -> None:
        positive("rate", self.rate)
        positive("period_s", self.period_s)
        if not 0.0 <= self.amplitude <= 1.0:
            raise UsageError(f"amplitude is {self.amplitude:g}; it must lie in 0..1")

    def chunks(self, rng: np.random.Generator) -> Iterator[Stamps]:
        """Unit-rate requests in the integral of the rate, mapped back to time through a table of one period."""
        phases = np.linspace(0.0, 1.0, _STEPS + 1)
        swing = self.amplitude / (2 * math.pi)
        shares = phases + swing * (1.0 - np.cos(2 * math.pi * phases))
        per_period = self.rate * self.period_s
        now = 0.0
        while True:
            expected = now + np.cumsum(rng.exponential(1.0, CHUNK_ROWS))
            now = float(expected[-1])
            periods, rest = np.divmod(expected / per_period, 1.0)
            yield _stamps((periods + np.interp(rest, shares, phases)) * self.period_s)


def _stamps(times_s: Floats) -> Stamps:
    return np.rint(np.minimum(times_s * NS_PER_S, BIGGEST)).astype(np.int64)
