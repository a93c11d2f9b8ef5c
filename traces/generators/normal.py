"""Uniform numbers that hang together:

normal scores with a correlation, mapped through the normal distribution (a Gaussian copula).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
CHUNK_ROWS = 16_384
_EDGE = 6.0
_STEPS = 2_401


def uniform_of(scores: Floats) -> Floats:
    """The normal distribution function, from a table that is exact to 1e-6."""
    grid, values = _table()
    return np.interp(scores, grid, values)


def correlated_scores(rng: np.random.Generator, correlation: float) -> tuple[Floats, Floats]:
    """Two chunks of standard normal numbers with this correlation."""
    first = rng.standard_normal(CHUNK_ROWS)
    own = rng.standard_normal(CHUNK_ROWS)
    return first, correlation * first + (1.0 - correlation**2) ** 0.5 * own


def level_scores(rng: np.random.Generator, weight: float, decay: float) -> Iterator[Floats]:
    """Standard normal numbers that share a slow level: `weight` of the variance is an AR(1) process that keeps
    `decay` of itself per step.

    The correlation of two numbers k steps apart is weight x decay^k.
    """
    level = float(rng.standard_normal())
    share, rest = weight**0.5, (1.0 - weight) ** 0.5
    while True:
        own = rng.standard_normal(CHUNK_ROWS)
        if weight == 0.0:
            yield own
            continue
        kicks = rng.standard_normal(CHUNK_ROWS) * (1.0 - decay**2) ** 0.5
        levels = np.array(
            list(accumulate(kicks.tolist(), lambda before, kick: decay * before + kick, initial=level))[1:]
        )
        level = float(levels[-1])
        yield share * levels + rest * own


@lru_cache(maxsize=1)
def _table() -> tuple[Floats, Floats]:
    normal = NormalDist()
    grid = np.linspace(-_EDGE, _EDGE, _STEPS)
    return grid, np.array([normal.cdf(float(score)) for score in grid])
