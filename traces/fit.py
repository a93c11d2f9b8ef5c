"""Fit a small model to a trace: `python -m traces.fit SOURCE --name azure-conv-like --out traces/models/azure-conv-
like.json`.

The model keeps the quantiles of prompts, outputs and gaps, the rank correlation of prompt and output, and how gaps
hang together: short ones follow short ones for a long time in real traffic, so the rank correlation of gaps is fitted
as weight x decay^lag.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from schedlab.errors import UsageError
from traces.open import open_trace
from traces.trace import Trace

SOURCE_NOTES = {
    "azure": {
        "title": "the Azure LLM inference trace 2023",
        "address": "https://github.com/Azure/AzurePublicDataset",
        "licence": "CC BY 4.0",
        "credit": "source: Azure Public Dataset, CC BY 4.0; Patel et al., 'Splitwise', ISCA 2024",
    }
}
_TAIL = (0.001, 0.002, 0.005)
_TOP = (0.9925, 0.995, 0.9965, 0.9975, 0.998, 0.9985, 0.999, 0.9993, 0.9995, 0.9997, 0.9999)
PROBABILITIES = tuple(sorted({round(step / 100, 2) for step in range(101)} | set(_TAIL) | set(_TOP)))
_LAGS = (1, 2, 3, 5, 8, 12, 20, 30, 50)


def fit(trace: Trace, name: str) -> dict[str, object]:
    """The model of a trace, as the JSON values that `traces.models` reads.

    UsageError when it has fewer than 100 rows.
    """
    columns = np.array([record[:3] for record in trace.records()], dtype=np.int64)
    if len(columns) < 100:
        raise UsageError(f"{trace.name}: {len(columns)} rows; at least 100 are needed for a fit")
    arrivals, prompts, outputs = columns.T
    gaps = np.diff(arrivals)
    weight, decay = _level(gaps)
    notes = SOURCE_NOTES.get(trace.format, {"title": trace.name, "credit": f"source: {trace.name}"})
    return {
        "schedlab_model": 1,
        "name": name,
        "source": {**notes, "file": trace.name, "sha256": trace.sha256},
        "rows": len(columns),
        "arrivals": {
            "kind": "empirical",
            "probabilities": PROBABILITIES,
            "gaps_ns": _quantiles(gaps),
            "mean_gap_ns": round(float(gaps.mean()), 1),
            "level_weight": weight,
            "level_decay": decay,
        },
        "lengths": {
            "kind": "quantiles",
            "probabilities": PROBABILITIES,
            "prompt_tokens": _quantiles(prompts),
            "output_tokens": _quantiles(outputs),
            "correlation": round(_score_correlation(_ranks(prompts), _ranks(outputs)), 4),
        },
    }


def _quantiles(values: NDArray[np.int64]) -> list[float]:
    return [round(float(value), 1) for value in np.quantile(values, PROBABILITIES)]


def _ranks(values: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.argsort(np.argsort(values, kind="stable"), kind="stable")


def _score_correlation(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """The correlation of normal scores that gives this rank correlation."""
    return 2.0 * math.sin(math.pi / 6.0 * float(np.corrcoef(first, second)[0, 1]))


def _level(gaps: NDArray[np.int64]) -> tuple[float, float]:
    """weight and decay of weight x decay^lag, least squares on the logarithm over a few lags; (0, 0) where there is
    no correlation.
    """
    ranks = _ranks(gaps)
    found = [(lag, _score_correlation(ranks[:-lag], ranks[lag:])) for lag in _LAGS if lag < len(gaps) // 10]
    kept = [(lag, math.log(value)) for lag, value in found if value > 0.01]
    if len(kept) < 3:
        return 0.0, 0.0
    slope, start = np.polyfit([lag for lag, _ in kept], [value for _, value in kept], 1)
    return round(min(1.0, math.exp(start)), 4), round(min(0.999, math.exp(slope)), 5)


def main(argv: list[str] | None = None) -> int:
    """Fit and write one model."""
    parser = argparse.ArgumentParser(prog="python -m traces.fit", description="Fit a small model to a trace.")
    parser.add_argument("source", help="a trace file of any known format")
    parser.add_argument("--name", required=True, help="the model's name")
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    args = parser.parse_args(argv)
    try:
        model = fit(open_trace(args.source), args.name)
    except UsageError as error:
        parser.error(str(error))
    args.out.write_text(json.dumps(model, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
