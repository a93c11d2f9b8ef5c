"""Reduces tables of any length to a picture's worth of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reports.units import find, is_number, section

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

CDF_POINTS = 500
TIMELINE_BINS = 800
GAUGES = ("running", "waiting", "parked", "kv_blocks")
COUNTERS = ("prompt_tokens", "output_tokens")
COMPLETED = ("stop", "length")


@dataclass(frozen=True, slots=True)
class Timeline:
    """A run's time lines in bins.

    Attributes:
        end_s: end of each bin, in simulated seconds.
        mean, peak: per gauge, its time-weighted mean (its peak where no time passed) and its largest value in each bin.
        rate: per counter, tokens per simulated second; NaN where no time passed.
    """

    end_s: Floats
    mean: dict[str, Floats]
    peak: dict[str, Floats]
    rate: dict[str, Floats]


def column(table: pd.DataFrame, name: str) -> Floats:
    """A column as floats, NaN where it is null or the table lacks it."""
    import numpy as np

    if name not in table.columns:
        return np.full(len(table), np.nan)
    return table[name].to_numpy(dtype="float64", na_value=np.nan)


def latencies_s(requests: pd.DataFrame) -> dict[str, Floats]:
    """Per metric one latency in seconds per request, NaN where a request has none.

    `queue` needs an admission, `ttft` a first token, `e2e` a regular end, `tpot` a regular end and two outputs.
    """
    import numpy as np

    arrival, first = column(requests, "arrival_ns"), column(requests, "first_token_ns")
    completed = requests["finish_reason"].isin(COMPLETED).to_numpy() if len(requests) else np.zeros(0, dtype=bool)
    finished = np.where(completed, column(requests, "finished_ns"), np.nan)
    outputs = column(requests, "output_tokens")
    gaps = np.where(outputs >= 2, outputs - 1, np.nan)
    return {
        "ttft": (first - arrival) / 1e9,
        "queue": (column(requests, "admitted_ns") - arrival) / 1e9,
        "tpot": (finished - first) / gaps / 1e9,
        "e2e": (finished - arrival) / 1e9,
    }


def cdf(values: Floats, points: int = CDF_POINTS) -> tuple[Floats, Floats]:
    """The distribution of `values` as (value, share at or below it), in at most `points` + 1 points.

    Many values are reduced to quantiles at equal distances of share; the largest value is always the last.
    """
    import numpy as np

    known = np.sort(values[~np.isnan(values)])
    if known.size == 0:
        return known, known
    if known.size <= points:
        share = np.arange(1, known.size + 1) / known.size
        return np.concatenate((known[:1], known)), np.concatenate(([0.0], share))
    share = np.linspace(0, 1, points)
    return known[np.ceil(share * known.size).astype(np.int64).clip(1) - 1], share


def bin_timeline(timeline: pd.DataFrame, bins: int = TIMELINE_BINS) -> Timeline:
    """At most `bins` groups of neighbouring intervals; tokens add up, gauges give a mean and a peak."""
    import numpy as np

    end_ns = column(timeline, "t_ns")
    width_s = _interval_widths_s(end_ns)
    count = min(bins, end_ns.size)
    edges = np.arange(count + 1) * end_ns.size // max(count, 1)
    starts, last = edges[:-1], edges[1:] - 1
    total_s = np.add.reduceat(width_s, starts) if count else width_s
    known_s = np.where(total_s > 0, total_s, np.nan)
    mean, peak, rate = {}, {}, {}
    for name in GAUGES:
        values = np.nan_to_num(column(timeline, name))
        peak[name] = np.maximum.reduceat(values, starts) if count else values
        weighted = np.add.reduceat(values * width_s, starts) / known_s if count else values
        mean[name] = np.where(np.isnan(weighted), peak[name], weighted)
    for name in COUNTERS:
        values = np.nan_to_num(column(timeline, name))
        rate[name] = np.add.reduceat(values, starts) / known_s if count else values
    return Timeline(end_ns[last] / 1e9, mean, peak, rate)


def _interval_widths_s(end_ns: Floats) -> Floats:
    """Lengths of the intervals that end at `end_ns`; the first is no longer than the typical one."""
    import numpy as np

    widths = np.diff(end_ns, prepend=0.0)
    if widths.size > 1:
        typical = float(np.median(widths[1:]))
        widths[0] = min(widths[0], typical) if widths[0] > 0 else typical
    return widths / 1e9


def pool_blocks(summary: Mapping[str, Any], config: Mapping[str, Any]) -> float | None:
    """Blocks in the pool: what the peak's blocks and share imply, else as configured; None if neither is known."""
    use = section(summary, "kv_use")
    blocks, share = use.get("peak_blocks"), use.get("peak")
    if is_number(blocks) and is_number(share) and blocks > 0 and share > 0:
        return float(round(blocks / share))
    configured = find(config, "num_blocks", "kv_blocks")
    return float(configured) if is_number(configured) and configured > 0 else None
