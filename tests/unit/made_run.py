"""Made-up results of a replay, for the tests of what renders them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd


@dataclass
class MadeRun:
    """What a replay hands to the reports."""

    requests: pd.DataFrame
    timeline: pd.DataFrame
    summary: dict[str, Any]
    config: dict[str, Any]
    run: dict[str, Any]
    notes: list[str]


def made_run(count: int, intervals: int = 120, seed: int = 1) -> MadeRun:
    """A run of `count` requests; the figures of its summary are not those of its tables."""
    rng = np.random.default_rng(seed)
    span_s = count / 5.0
    requests = _requests(rng, count, span_s)
    timeline = pd.DataFrame(
        {
            "t_ns": _ns(np.linspace(0, span_s, intervals + 1)[1:]),
            "running": rng.integers(1, 90, intervals),
            "waiting": rng.integers(0, 20, intervals),
            "parked": rng.integers(0, 3, intervals),
            "kv_blocks": rng.integers(0, 8_200, intervals),
            "prompt_tokens": rng.poisson(5_000, intervals),
            "output_tokens": rng.poisson(900, intervals),
            "steps": 90,
        }
    )
    latency = {"mean": 73.2, "p50": 43.3, "p90": 169.0, "p95": 234.0, "p99": 365.0, "max": 842.0, "count": count}
    summary = {
        "requests": {"arrived": count + 3, "finished": {"length": count}, "refused": 3},
        "duration_s": span_s,
        "ttft_ms": latency,
        "tpot_ms": {**latency, "p50": 12.3},
        "itl_ms": latency,
        "e2e_ms": {**latency, "p50": 1_880.0, "p99": 15_500.0},
        "queue_ms": {**latency, "p50": 0},
        "throughput": {"requests_per_s": 5.38, "output_tokens_per_s": 1136.2, "total_tokens_per_s": 7354.1},
        "goodput": {
            "targets": {"ttft": 0.1, "tpot": 0.02},
            "share": 0.913,
            "requests_per_s": 4.91,
            "attainment": {"ttft": 0.981, "tpot": 0.925},
        },
        "kv_use": {"mean": 0.41, "peak": 0.912},
        "batch": {"mean": 40.2, "peak": 93},
        "steps": 412_345,
        "iterations_per_s": 115.3,
        "preemptions": 17,
        "recomputed_tokens": 18_234,
        "swaps": 0,
    }
    config = {
        "preset": "vllm",
        "policy": "fifo",
        "trace": {"name": "azure-conv-like", "sha256": "ab" * 32, "is_model": True},
        "model": "llama-3-8b",
        "hardware": "h100",
        "tp": 2,
        "scheduler": {"max_num_seqs": 256, "max_num_batched_tokens": 8192, "block_size": 16, "num_blocks": 9000},
    }
    run = {"wall_s": 2.13, "cpu_s": 2.05, "machine": "2 cores", "date": "2025-01-02", "speedup": 1683.2}
    return MadeRun(requests, timeline, summary, config, run, ["A modelled trace, not an original."])


def empty_run() -> MadeRun:
    """A run in which nothing happened and of which nothing is known."""
    full = made_run(1)
    return MadeRun(full.requests.iloc[:0], full.timeline.iloc[:0], {}, {}, {}, [])


def _requests(rng: np.random.Generator, count: int, span_s: float) -> pd.DataFrame:
    arrival = np.sort(rng.uniform(0, span_s, count))
    prompt, output = rng.integers(3, 14_000, count), rng.integers(2, 1_500, count)
    admitted = arrival + np.where(rng.random(count) < 0.6, 0, rng.exponential(0.08, count))
    first = admitted + 0.012 + prompt * 2.2e-5
    return pd.DataFrame(
        {
            "request_id": np.arange(count),
            "arrival_ns": _ns(arrival),
            "admitted_ns": _ns(admitted),
            "first_token_ns": _ns(first),
            "finished_ns": _ns(first + 0.0123 * (output - 1)),
            "prompt_tokens": prompt,
            "output_tokens": output,
            "cached_tokens": 0,
            "preemptions": 0,
            "swaps": 0,
            "finish_reason": "length",
            "tenant": "",
            "session": "",
        }
    )


def _ns(seconds: np.ndarray) -> Any:
    return pd.array((seconds * 1e9).astype(np.int64), dtype="Int64")
