"""Every reader on the public files, where they are at hand: counts that were found without these readers."""

from __future__ import annotations

import pytest

from schedlab.errors import UsageError
from tests.shared_data import shared
from traces.generators.sampled import sampled_lengths
from traces.open import open_trace
from traces.summary import summarise


@pytest.mark.parametrize(
    ("name", "rows", "input_tokens", "percent", "blocks"),
    [("conversation", 12_031, 144_793_823, 37.36, 182_790), ("synthetic", 3_993, 61_194_628, 65.12, 43_924)],
)
def test_mooncake_prefixes_hit_exactly_as_often_as_counted(
    name: str, rows: int, input_tokens: int, percent: float, blocks: int
) -> None:
    summary = summarise(open_trace(shared(f"traces/mooncake-fast25/{name}_trace.jsonl.gz")))
    assert summary.rows == rows
    assert summary.prefix is not None
    assert (summary.prefix["input_tokens"], summary.prefix["blocks"]) == (input_tokens, blocks)
    assert round(100 * summary.prefix["hit_tokens"] / input_tokens, 2) == percent


@pytest.mark.parametrize(
    ("name", "rows", "sessions", "empty"),
    [("miniswe", 402, 20, 0), ("magagent", 746, 25, 53), ("taubench", 471, 24, 0)],
)
def test_lmcache_agents(name: str, rows: int, sessions: int, empty: int) -> None:
    trace = open_trace(shared(f"traces/lmcache-agents/{name}.hash64.jsonl.gz"))
    records = list(trace.records())
    assert (trace.report.rows_read, trace.scan().sessions) == (rows, sessions)
    assert trace.report.rows_dropped == empty
    assert trace.report.reordered_rows > 0
    assert [r.arrival_ns for r in records] == sorted(r.arrival_ns for r in records)
    assert records[0].arrival_ns == 0
    if name == "taubench":
        assert sum(r.output_tokens == 0 for r in records) == 283


def test_vtc_runs_have_the_same_arrivals_and_only_the_limited_one_refuses() -> None:
    names = ("FCFS", "VTC", "LShare_rpm20")
    traces = [open_trace(shared(f"traces/vtc-lmsys-real/{name}.results_real.jsonl.gz")) for name in names]
    full, other, limited = (list(trace.records()) for trace in traces)
    assert full == other
    assert len(full) == 1500
    tenants = [record.tenant for record in full]
    assert (len(set(tenants)), tenants.count("client-2"), tenants.count("client-10")) == (27, 296, 262)
    assert traces[2].report.rows_read == 1500
    assert 0 < len(limited) < 1500
    assert traces[2].report.add_up()


def test_llmservingsim_workloads() -> None:
    folder = "traces/llmservingsim-lengths"
    assert open_trace(shared(f"{folder}/sharegpt-llama-3.1-8b-300-sps10.lengths.csv")).scan().rows == 300
    assert open_trace(shared(f"{folder}/workload_me2_01_mixed.jsonl")).scan().rows == 608


def test_tracelab_example() -> None:
    trace = open_trace(shared("traces/tracelab-example/round_trace.jsonl"))
    records = list(trace.records())
    assert (len(records), trace.scan().sessions, trace.closed_loop) == (19, 2, True)
    assert [sum(r.session.startswith(who) for r in records) for who in ("claude", "codex")] == [10, 9]
    assert sum(r.think_ns >= 0 for r in records) == 17


def test_vidur_lengths_are_refused_and_serve_as_lengths() -> None:
    path = shared("traces/vidur-lengths/arxiv_summarization_stats_llama2_tokenizer_filtered_v2.csv.gz")
    with pytest.raises(UsageError, match="without arrival times"):
        open_trace(path)
    lengths = sampled_lengths(str(path))
    assert len(lengths.prompts) == 28_257
    assert (int(lengths.prompts.min()), int(lengths.outputs.max())) == (1, 4056)
