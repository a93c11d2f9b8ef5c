"""What `schedlab trace inspect` says of a trace: counts, quantiles, burstiness, prefix sharing."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from traces.prefix import PrefixCount
from traces.record import TraceRecord
from traces.trace import Trace

LEVELS = (50, 90, 95, 99, 100)
NS_PER_S = 1_000_000_000
Watch = Callable[[Iterable[TraceRecord], int], Iterable[TraceRecord]]


@dataclass(frozen=True)
class Summary:
    """Facts of a trace. Quantiles are values that occur (inverted distribution function), None where there are no
    values.

    `gap_cv` is the coefficient of variation of the gaps between arrivals; `peak_to_mean` compares the fullest second
    with the mean of all seconds from the first arrival's to the last one's. In a closed-loop trace arrivals are those
    of sessions.
    """

    trace: dict[str, object]
    report: dict[str, object]
    rows: int
    span_s: float
    sessions: int
    prompt_tokens: int
    output_tokens: int
    quantiles: dict[str, dict[str, float] | None]
    gap_cv: float | None
    peak_per_s: int
    peak_to_mean: float | None
    prefix: dict[str, int] | None

    def as_dict(self) -> dict[str, object]:
        """The summary as JSON values."""
        return dict(vars(self))


def summarise(trace: Trace, watch: Watch = lambda records, rows: records) -> Summary:
    """Two passes over the trace; keeps three numbers a row."""
    stats = trace.scan()
    prompts, outputs, arrivals, thinks = array("q"), array("q"), array("q"), array("q")
    prefix = PrefixCount()
    for record in watch(trace.records(), stats.rows):
        prompts.append(record.prompt_tokens)
        outputs.append(record.output_tokens)
        (thinks if record.think_ns >= 0 else arrivals).append(max(record.think_ns, record.arrival_ns))
        if stats.has_hash_ids:
            prefix.add(record)
    (peak, seconds), gaps = _peak_per_s(arrivals), array("q", map(int.__sub__, arrivals[1:], arrivals[:-1]))
    quantiles: dict[str, dict[str, float] | None] = {
        "prompt_tokens": _quantiles(prompts),
        "output_tokens": _quantiles(outputs),
        "gap_s": _quantiles(gaps, NS_PER_S),
    }
    if thinks:
        quantiles["think_s"] = _quantiles(thinks, NS_PER_S)
    span_s = stats.span_ns / NS_PER_S
    return Summary(
        trace=_identity(trace),
        report=trace.report.as_dict(),
        rows=stats.rows,
        span_s=span_s,
        sessions=stats.sessions,
        prompt_tokens=stats.prompt_tokens,
        output_tokens=stats.output_tokens,
        quantiles=quantiles,
        gap_cv=_cv(gaps),
        peak_per_s=peak,
        peak_to_mean=round(peak * seconds / len(arrivals), 3) if span_s else None,
        prefix=prefix.as_dict() if stats.has_hash_ids else None,
    )


def _identity(trace: Trace) -> dict[str, object]:
    lineage = trace.lineage
    return {
        "name": trace.name,
        "format": trace.format,
        "sha256": trace.sha256,
        "kind": "modelled" if trace.is_model else lineage.kind,
        "title": lineage.title(trace.is_model),
        "source": {"name": lineage.name, "sha256": lineage.sha256},
        "steps": list(lineage.steps),
        "loop": "closed" if trace.closed_loop else "open",
    }


def _quantiles(values: array[int], unit: int = 1) -> dict[str, float] | None:
    import numpy as np

    if not values:
        return None
    found = np.quantile(np.array(values), [level / 100 for level in LEVELS], method="inverted_cdf")
    names = [f"p{level}" for level in LEVELS[:-1]] + ["max"]
    return {name: int(value) if unit == 1 else float(value) / unit for name, value in zip(names, found, strict=True)}


def _cv(values: array[int]) -> float | None:
    import numpy as np

    gaps = np.array(values, dtype=np.float64)
    return round(float(gaps.std() / gaps.mean()), 4) if len(gaps) and gaps.mean() > 0 else None


def _peak_per_s(arrivals: array[int]) -> tuple[int, int]:
    """Arrivals in the fullest second, and the seconds from the first arrival's to the last one's."""
    import numpy as np

    if not arrivals:
        return 0, 0
    seconds, counts = np.unique(np.array(arrivals) // NS_PER_S, return_counts=True)
    return int(counts.max()), int(seconds[-1] - seconds[0]) + 1
