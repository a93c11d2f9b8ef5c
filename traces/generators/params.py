"""Parameters of generators: how they are told, and what they must be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from schedlab.errors import UsageError

MOST_ROWS = 10**10


class Parameters:
    """Base of the frozen dataclasses that describe a process or a distribution."""

    kind: ClassVar[str]

    def params(self) -> dict[str, object]:
        """Everything that decides the stream but the seed, as JSON values."""
        return {"kind": self.kind, **vars(self)}


def positive(name: str, value: float) -> float:
    """Refuse zero, negative and non-finite parameters."""
    if not (math.isfinite(value) and value > 0):
        raise UsageError(f"{name} is {value:g}; it must be above 0")
    return value


def between(name: str, value: float, low: float, high: float) -> float:
    """Refuse a parameter outside of low..high, and nan."""
    if not low <= value <= high:
        raise UsageError(f"{name} is {value:g}; it must lie in {low:g}..{high:g}")
    return value


def check_draw(rows: int, seed: int) -> None:
    """Refuse a number of rows or a seed that nothing can be drawn with."""
    if not 1 <= rows <= MOST_ROWS:
        raise UsageError(f"rows is {rows}; give 1 to {MOST_ROWS}")
    if seed < 0:
        raise UsageError(f"seed is {seed}; it must not be negative")


def check_table(probabilities: Sequence[float], values: Sequence[float]) -> None:
    """Refuse a quantile table that does not go from 0 to 1 with values that never fall and are not negative."""
    rising = list(probabilities) == sorted(set(probabilities)) and list(values) == sorted(values)
    if len(probabilities) != len(values) or not rising or not values or values[0] < 0:
        raise UsageError("quantile table: probabilities must rise, values must not fall, one value for each")
    if probabilities[0] != 0.0 or probabilities[-1] != 1.0:
        raise UsageError("quantile table: probabilities must go from 0 to 1")


def check_correlation(value: float) -> None:
    """Refuse a correlation outside -1..1."""
    if not -1.0 <= value <= 1.0:
        raise UsageError(f"correlation is {value:g}; it must lie in -1..1")
