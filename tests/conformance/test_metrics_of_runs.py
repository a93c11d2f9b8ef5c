"""S46, M01, M05 and M10: figures of runs with evictions, aborts and empty outputs stay figures."""

from __future__ import annotations

import json
from typing import Any

import pytest

from experiments.metrics.latency import TokenGaps
from experiments.metrics.requests import RequestTable
from experiments.metrics.summary import Summary
from experiments.metrics.usage import Usage
from schedlab.events import EVENT_METHODS, EventBus
from tests.conformance import harness
from tests.conformance.made import ask, crowd, made_case, readers, some_leave
from tests.conformance.recorder import Recorder
from tests.conformance.scenario import FOLDER, Case, cases
from tests.event_script import EventScript

COUNTERS = (
    *("arrived", "refused", "preemptions", "steps", "decode_steps", "decode_tokens", "output_tokens"),
    *("computed_prefill_tokens", "busy_quanta", "block_quanta", "last_quanta"),
)


class CountersOnlyRise:
    """Looks at every counter after every event; it must come after `usage` and `table` among the observers."""

    def __init__(self, usage: Usage, table: RequestTable) -> None:
        self._usage = usage
        self._table = table
        self._last = self._read()
        self.num_looks = 0
        for method in EVENT_METHODS:
            setattr(self, method, self._look)

    def _look(self, event: object) -> None:
        now = self._read()
        assert all(after >= before for before, after in zip(self._last, now, strict=True)), (self._last, now)
        self._last = now
        self.num_looks += 1

    def _read(self) -> list[int]:
        counters = [getattr(self._usage, name) for name in COUNTERS]
        return [*counters, len(self._table), self._table.recomputed_tokens]


def _measured(case: Case, *, leap: bool = True) -> tuple[Recorder, dict[str, Any], RequestTable, CountersOnlyRise]:
    table, gaps, usage = RequestTable(), TokenGaps(), Usage()
    rise = CountersOnlyRise(usage, table)
    recorder = harness.run(case, leap=leap, observers=[usage, table, gaps, rise])
    pool = recorder.core.pool
    summary = Summary(table, gaps, usage, pool.total_blocks)
    return recorder, {**summary.to_dict(), "cache": summary.cache(pool.cached_blocks, pool.num_evicted)}, table, rise


@pytest.mark.parametrize("leap", [True, False])
def test_m01_no_counter_ever_falls(leap: bool) -> None:
    """vllm-project/vllm#6642. Half of the blocks that the crowd would use, evictions and aborts; drafts to come."""
    asks = crowd(1000, seed=11)
    case = made_case(asks, {"blocks": 30}, {"max_num_seqs": 24, "max_num_batched_tokens": 256}, some_leave(asks, 5))
    recorder, summary, table, rise = _measured(case, leap=leap)
    assert rise.num_looks > 3000
    assert summary["preemptions"] == len(recorder.preempted) > 50
    assert summary["requests"]["finished"]["cancelled"] > 20
    assert summary["requests"]["unfinished"] == 0
    assert summary["recomputed_tokens"] == sum(lived.recomputed for lived in recorder.lived.values())
    assert summary["output_tokens"] == sum(table.output_tokens) == sum(len(r.token_ns) for r in recorder.lived.values())


@pytest.mark.parametrize("leap", [True, False])
def test_m01_no_counter_ever_falls_with_cache_hits_and_swaps(leap: bool) -> None:
    """The host has room for 16 blocks."""
    asks = readers(1000, seed=12)
    config = {"max_num_seqs": 24, "max_num_batched_tokens": 256, "preemption": "host", "swap_host_gib": 1}
    setup = {"blocks": 30, "block_mib": 64, "copy_ms": 0.1}
    recorder, summary, table, rise = _measured(made_case(asks, setup, config, some_leave(asks, 5)), leap=leap)
    lived = recorder.lived.values()
    assert rise.num_looks > 3000
    assert len(recorder.preempted) == summary["preemptions"] > 50
    assert len(recorder.swapped) == summary["swaps"] > 20
    assert summary["cached_tokens"] == sum(one.cached for one in lived) > 5000
    assert summary["cache"]["hit_tokens_on_return"] == sum(one.cached_on_return for one in lived) > 0
    assert summary["recomputed_tokens"] == sum(one.recomputed for one in lived)
    assert summary["computed_prefill_tokens"] == sum(one.prefilled for one in lived)
    assert summary["output_tokens"] == sum(table.output_tokens) == sum(len(one.token_ns) for one in lived)


def test_m06_the_hit_share_of_prompts_that_nobody_had_before_is_nothing() -> None:
    """vllm-project/vllm#25780: 30 % of the tokens as reported, all of them of prompts that came back."""
    two = [case for case in cases(FOLDER / "part1" / "M06.toml") if case.name == "two"]
    _, summary, *_ = _measured(two[0])
    assert summary["cache"]["hit_tokens"] == summary["cache"]["hit_share"] == summary["cache"]["hit_requests"] == 0
    assert summary["cache"]["hit_tokens_on_return"] == 48


def test_m01_an_id_in_use_is_refused_and_counted_so() -> None:
    asks = (ask(0, 16, 20), ask(1, 16, 4), ask(0, 99, 99, 2_000_000, "twice"), ask(0, 16, 3, 40_000_000, "later"))
    recorder, summary, *_ = _measured(made_case(asks, {}))
    assert recorder.lived["twice"].error == "a live request has the id 0 already"
    assert len(recorder.lived["R0"].token_ns) == 20 and len(recorder.lived["later"].token_ns) == 3
    assert summary["requests"] == {
        "arrived": 4,
        "refused": 1,
        "unfinished": 0,
        "finished": {"stop": 0, "length": 3, "timeout": 0, "cancelled": 0, "error": 0},
    }


@pytest.mark.parametrize(("name", "rate"), [("no_aging", 0.0), ("aging", 0.1)])
def test_s46_the_order_is_that_of_a_full_sort_and_the_longest_wait_is_a_figure(name: str, rate: float) -> None:
    """vllm-project/vllm#20608. The key is priority + rate x arrival, then arrival; nobody's class is rewritten."""
    (case,) = [case for case in cases(FOLDER / "part1" / "S46.toml") if case.name == name]
    recorder, summary, *_ = _measured(case)
    by_key = sorted(case.asks, key=lambda one: (one.request.priority + rate * one.at_ns / 1e9, one.at_ns))
    # Who comes first is alone; all others have come when their turn does.
    assert recorder.starts == [one.name for one in by_key]
    assert [one.request.priority for one in case.asks if one.name == "L"] == [9]
    assert summary["queue_ms"]["max"] == (90_000 if rate else 300_000)


def test_m05_an_eviction_adds_no_gaps() -> None:
    """inference-sim/inference-sim#1098: 20 requests of 16 outputs, 36 of the 60 blocks that they would hold."""
    case = made_case(tuple(ask(index, 32, 16) for index in range(20)), {"blocks": 36}, {"max_num_seqs": 32})
    recorder, summary, table, _ = _measured(case)
    assert sum(bool(lived.preempted_ns) for lived in recorder.lived.values()) >= 5
    assert summary["itl_ms"]["count"] == 20 * 15
    for name, lived in recorder.lived.items():
        row = table.request_id.index(int(name[1:]))
        gaps_ns = [later - earlier for earlier, later in zip(lived.token_ns, lived.token_ns[1:], strict=False)]
        ttft_ns = table.first_token_ns[row] - table.arrival_ns[row]
        e2e_ns = table.finished_ns[row] - table.arrival_ns[row]
        assert len(gaps_ns) == 15
        assert ttft_ns + sum(gaps_ns) == e2e_ns
        assert table.last_token_ns[row] - table.first_token_ns[row] == sum(gaps_ns)
    assert summary["itl_ms"]["mean"] * 15 + summary["ttft_ms"]["mean"] == pytest.approx(summary["e2e_ms"]["mean"])


def test_m10_outputs_of_none_one_and_two_tokens_give_figures_where_there_are_any() -> None:
    """openshift-psap/llm-load-test#54."""
    _, summary, *_ = _measured(made_case((ask(0, 8, 0), ask(1, 8, 1), ask(2, 8, 2)), {}))
    assert summary["tpot_ms"] == {"count": 1, **dict.fromkeys(("mean", "p50", "p90", "p95", "p99", "max"), 1.0)}
    assert summary["ttft_ms"]["count"] == 2
    json.dumps(summary, allow_nan=False)


def test_m10_a_run_in_which_everything_failed_has_counts_and_no_latencies() -> None:
    case = made_case((ask(0, 400, 1), ask(1, 500, 1)), {"blocks": 10})
    _, summary, *_ = _measured(case)
    assert summary["requests"]["refused"] == 2
    assert all(summary[name] == {"count": 0} for name in ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms", "queue_ms"))
    assert summary["throughput"] == {}
    json.dumps(summary, allow_nan=False)


def test_m10_an_empty_run_has_a_summary() -> None:
    _, summary, *_ = _measured(made_case((), {}))
    assert summary["requests"]["arrived"] == 0
    assert summary["throughput"] == {} and "busy_share" not in summary
    json.dumps(summary, allow_nan=False)


def test_m10_two_tokens_at_the_same_nanosecond_divide_nothing_by_zero() -> None:
    bus, table, gaps, usage = EventBus(), RequestTable(), TokenGaps(), Usage()
    for observer in (table, gaps, usage):
        bus.add(observer)
    script = EventScript(bus)
    sequence = script.arrive(4)
    script.admit(sequence)
    script.chunk(sequence, 4, duration=1, with_decode=False)
    script.decode(1, first=1)
    script.finish(sequence)
    summary = Summary(table, gaps, usage, 10, slo={"ttft": 1}).to_dict()
    assert summary["tpot_ms"]["mean"] == 0 and summary["e2e_ms"]["count"] == 1
    json.dumps(summary, allow_nan=False)
