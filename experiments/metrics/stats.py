"""Integers to the few floats that a summary shows: the only place where rounding happens."""

from __future__ import annotations

from math import fsum
from typing import TYPE_CHECKING, Any

from experiments.metrics.histogram import LogHistogram
from experiments.metrics.tables import exact_sum

if TYPE_CHECKING:
    import numpy.typing as npt

PERCENTILES = (50, 90, 95, 99)
_DECIMALS = 6


def clean(value: float) -> float:
    """Rounded to 6 decimals: a nanosecond in milliseconds, a microsecond in seconds."""
    return round(float(value), _DECIMALS)


def ratio(part: int, whole: int) -> float | None:
    """Part over whole; None over nothing."""
    return clean(part / whole) if whole else None


def present(**figures: Any) -> dict[str, Any]:
    """The figures that exist, in the order given."""
    return {name: figure for name, figure in figures.items() if figure is not None}


def table_of_values(values: npt.NDArray[Any], unit: int) -> dict[str, Any]:
    """Count, mean, percentiles (linear between ranks) and maximum, in multiples of `unit`; of no value the count."""
    import numpy as np

    count = len(values)
    if not count:
        return {"count": 0}
    # Both sums are exact, so that they depend neither on the order of the rows nor on the machine.
    total = exact_sum(values) if values.dtype.kind == "i" else fsum(values.tolist())
    points = np.percentile(values, PERCENTILES, method="linear")
    percentiles = {f"p{share}": clean(point / unit) for share, point in zip(PERCENTILES, points, strict=True)}
    return {"count": count, "mean": clean(total / count / unit), **percentiles, "max": clean(values.max() / unit)}


def table_of_histogram(histogram: LogHistogram, unit: int) -> dict[str, Any]:
    """The same from buckets: percentiles are the middle of their bucket, mean and maximum are exact."""
    count = histogram.count
    if not count:
        return {"count": 0}
    points = [histogram.quantile(share / 100) or 0 for share in PERCENTILES]
    percentiles = {f"p{share}": clean(point / unit) for share, point in zip(PERCENTILES, points, strict=True)}
    mean, highest = clean(histogram.total / (count * unit)), clean(histogram.maximum / unit)
    return {"count": count, "mean": mean, **percentiles, "max": highest}
