"""Reduction keeps totals, ends and quantiles."""

from __future__ import annotations

import numpy as np
import pandas as pd

from reports.reduce import bin_timeline, cdf, latencies_s, pool_blocks
from tests.unit.made_run import made_run


def test_cdf_of_few_values_has_every_one_of_them() -> None:
    x, share = cdf(np.array([3.0, np.nan, 1.0, 2.0]))
    assert x.tolist() == [1, 1, 2, 3]
    assert share.tolist() == [0, 1 / 3, 2 / 3, 1]


def test_cdf_of_many_values_keeps_both_ends_and_the_median() -> None:
    x, share = cdf(np.random.default_rng(0).permutation(100_001).astype(float), points=1_001)
    assert (x.size, x[0], x[-1], share[0], share[-1]) == (1_001, 0, 100_000, 0, 1)
    assert abs(x[500] - 50_000) <= 1
    assert (np.diff(x) >= 0).all()


def test_reduced_cdf_never_promises_more_than_the_data() -> None:
    values = np.repeat([1.0, 9.0], [9_990, 10])
    x, share = cdf(values, points=1_000)
    assert all(np.mean(values <= at) >= level for at, level in zip(x, share, strict=True))


def test_latencies_need_what_they_measure() -> None:
    requests = pd.DataFrame(
        {
            "arrival_ns": pd.array([0, 0, 0, 0], dtype="Int64"),
            "admitted_ns": pd.array([10, 10, 10, None], dtype="Int64"),
            "first_token_ns": pd.array([20, 20, 20, None], dtype="Int64"),
            "finished_ns": pd.array([60, 20, 60, 5], dtype="Int64"),
            "output_tokens": [5, 1, 5, 0],
            "finish_reason": ["length", "stop", "timeout", "refused"],
        }
    )
    found = {key: (values * 1e9).round(6).tolist() for key, values in latencies_s(requests).items()}
    expected = {
        "queue": [10, 10, 10, None],
        "ttft": [20, 20, 20, None],
        "tpot": [10, None, None, None],
        "e2e": [60, 20, None, None],
    }
    assert {key: [None if value != value else value for value in row] for key, row in found.items()} == expected


def test_bins_keep_token_totals_peaks_and_the_mean() -> None:
    table = made_run(500, intervals=9_973).timeline
    line = bin_timeline(table, bins=100)
    widths = np.diff(line.end_s, prepend=0.0)
    assert line.end_s.size == 100
    assert line.end_s[-1] == table["t_ns"].iloc[-1] / 1e9
    assert np.isclose((line.rate["output_tokens"] * widths).sum(), table["output_tokens"].sum())
    assert np.isclose((line.mean["running"] * widths).sum() / widths.sum(), table["running"].mean())
    assert line.peak["kv_blocks"].max() == table["kv_blocks"].max()


def test_an_interval_that_took_no_time_has_no_rate() -> None:
    line = bin_timeline(pd.DataFrame({"t_ns": [0], "running": [3], "output_tokens": [5]}))
    assert np.isnan(line.rate["output_tokens"]).all()
    assert line.mean["running"].tolist() == [3]


def test_pool_size_follows_from_the_peak_or_is_configured() -> None:
    configured = {"scheduler": {"num_blocks": 900}}
    assert pool_blocks({"kv_use": {"peak": 0.5, "peak_blocks": 600}}, configured) == 1_200
    assert pool_blocks({"kv_use": {"peak": 0.0, "peak_blocks": 0}}, configured) == 900
    assert pool_blocks({}, {}) is None
