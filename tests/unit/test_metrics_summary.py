"""The summary: the right figure under the right name, absent where it does not exist, never NaN."""

from __future__ import annotations

import json
from typing import Any

import pytest

from experiments.metrics.latency import TokenGaps
from experiments.metrics.requests import RequestTable
from experiments.metrics.summary import Summary
from experiments.metrics.usage import Usage
from schedlab.errors import UsageError
from schedlab.events import EventBus
from schedlab.pace import ns_to_quanta
from schedlab.request import FinishReason
from schedlab.sequence import Sequence
from tests.event_script import MS, EventScript

TABLES = ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms", "queue_ms")


class Run:
    """A script with the observers that a summary needs."""

    def __init__(self) -> None:
        self.observers = RequestTable(), TokenGaps(), Usage()
        bus = EventBus()
        for observer in self.observers:
            bus.add(observer)
        self.script = EventScript(bus, block_size=4)

    def serve(self, prompt_tokens: int, prefill_ms: int, iterations: int, decode_ms: int = 10) -> Sequence:
        script = self.script
        sequence = script.arrive(prompt_tokens)
        script.admit(sequence)
        script.chunk(sequence, prompt_tokens, ns_to_quanta(prefill_ms * MS), with_decode=False)
        if iterations:
            script.decode(iterations, ns_to_quanta(decode_ms * MS))
        script.finish(sequence)
        return sequence

    def summary(self, num_blocks: int | None = None, slo: dict[str, float] | None = None) -> dict[str, Any]:
        document = Summary(*self.observers, num_blocks, slo).to_dict()
        assert json.loads(json.dumps(document, allow_nan=False)) == document
        return document


def test_prefill_and_decode_times_are_not_swapped() -> None:
    run = Run()
    waiting = run.script.arrive(4096)
    run.script.wait(ns_to_quanta(50 * MS))
    run.script.admit(waiting)
    run.script.chunk(waiting, 4096, ns_to_quanta(400 * MS), with_decode=False)
    run.script.decode(1, ns_to_quanta(10 * MS))
    run.script.finish(waiting)
    means = {name: run.summary()[name]["mean"] for name in TABLES}
    assert means == {"ttft_ms": 450, "tpot_ms": 10, "itl_ms": 10, "e2e_ms": 460, "queue_ms": 50}


def test_an_empty_run_has_counts_of_zero_and_no_rates() -> None:
    document = Run().summary(10, {"ttft": 1.0})
    assert document["requests"]["arrived"] == 0
    assert document["duration_s"] == 0
    assert [document[name] for name in TABLES] == [{"count": 0}] * 5
    assert document["throughput"] == document["batch"] == {}
    assert document["kv_use"] == {"peak": 0}
    assert document["goodput"] == {"targets": {"ttft": 1.0}, "attainment": {}}


def test_outputs_of_one_token_have_no_tpot_and_no_gap() -> None:
    run = Run()
    run.serve(5, 10, iterations=0)
    document = run.summary()
    assert document["tpot_ms"] == document["itl_ms"] == {"count": 0}
    assert document["ttft_ms"]["count"] == document["e2e_ms"]["count"] == 1
    assert document["batch"] == {}


def test_refused_failed_and_waiting_requests_are_counted_and_leave_latencies_alone() -> None:
    run = Run()
    run.serve(5, 10, 3)
    run.script.refuse(500)
    run.script.finish(run.script.arrive(5), FinishReason.ERROR)
    run.script.finish(run.script.arrive(5), FinishReason.TIMEOUT)
    run.script.arrive(7)
    document = run.summary()
    counts = document["requests"]
    assert counts["finished"] == {"stop": 1, "length": 0, "timeout": 1, "cancelled": 0, "error": 1}
    assert (counts["arrived"], counts["refused"], counts["unfinished"]) == (5, 1, 1)
    assert [document[name]["count"] for name in TABLES] == [1, 1, 3, 1, 1]
    assert document["prompt_tokens"] == 5


def test_percentiles_are_in_milliseconds_and_interpolate() -> None:
    run = Run()
    for prefill_ms in range(1, 12):
        run.serve(4, prefill_ms, 1)
    table = run.summary()["ttft_ms"]
    assert table == {"count": 11, "mean": 6, "p50": 6, "p90": 10, "p95": 10.5, "p99": 10.9, "max": 11}


def test_itl_percentiles_come_within_a_bucket_and_their_mean_is_exact() -> None:
    run = Run()
    run.serve(4, 1, 90, decode_ms=10)
    run.serve(4, 1, 10, decode_ms=50)
    table = run.summary()["itl_ms"]
    assert (table["count"], table["mean"], table["max"]) == (100, 14, 50)
    assert table["p50"] == pytest.approx(10, rel=0.008)
    assert table["p99"] == pytest.approx(50, rel=0.008)


def test_iterations_rates_and_busy_share_follow_simulated_time() -> None:
    run = Run()
    run.serve(8, 100, 90)
    run.script.wait(ns_to_quanta(1000 * MS))
    run.serve(8, 100, 90)
    document = run.summary()
    assert document["steps"] == 182
    assert document["duration_s"] == 3
    assert document["busy_share"] == round(2 / 3, 6)
    assert document["iterations_per_s"] == round(182 / 3, 6)
    assert document["throughput"]["output_tokens_per_s"] == round(182 / 3, 6)
    assert document["throughput"]["total_tokens_per_s"] == 66
    assert document["throughput"]["requests_per_s"] == round(2 / 3, 6)


def test_kv_use_is_weighted_by_busy_time_only() -> None:
    run = Run()
    run.serve(4, 30, 0)
    run.script.wait(ns_to_quanta(9000 * MS))
    run.serve(12, 10, 0)
    use = run.summary(num_blocks=6)["kv_use"]
    assert use == {"mean": 0.25, "peak": 0.5, "mean_blocks": 1.5, "peak_blocks": 3}
    assert set(run.summary()["kv_use"]) == {"mean_blocks", "peak_blocks"}


def test_batch_size_is_rows_per_iteration_not_per_event() -> None:
    run = Run()
    script = run.script
    for prompt_tokens in (4, 4):
        sequence = script.arrive(prompt_tokens)
        script.admit(sequence)
        script.chunk(sequence, prompt_tokens, ns_to_quanta(MS), with_decode=False)
    script.decode(9, ns_to_quanta(MS))
    script.finish(sequence)
    script.decode(1, ns_to_quanta(MS))
    assert run.summary()["batch"] == {"mean": 1.9, "peak": 2}


def test_recomputed_tokens_are_apart_from_outputs() -> None:
    run = Run()
    script = run.script
    sequence = script.arrive(6)
    script.admit(sequence)
    script.chunk(sequence, 6, ns_to_quanta(MS), with_decode=False)
    script.decode(2, ns_to_quanta(MS))
    script.preempt(sequence)
    script.resume(sequence)
    script.chunk(sequence, 100, ns_to_quanta(MS), with_decode=False)
    script.decode(2, ns_to_quanta(MS))
    script.finish(sequence)
    document = run.summary()
    assert (document["output_tokens"], document["itl_ms"]["count"]) == (6, 5)
    assert (document["preemptions"], document["recomputed_tokens"]) == (1, 8)
    assert (document["prompt_tokens"], document["computed_prefill_tokens"]) == (6, 15)


def test_goodput_counts_requests_that_meet_every_target() -> None:
    run = Run()
    run.serve(4, 100, 10, decode_ms=10)
    run.serve(4, 300, 10, decode_ms=10)
    run.serve(4, 100, 10, decode_ms=30)
    run.script.refuse(999)
    document = run.summary(slo={"ttft": 0.2, "tpot": 0.02})
    goodput = document["goodput"]
    assert goodput["attainment"] == {"ttft": 0.5, "tpot": 0.5}
    assert goodput["share"] == 0.25
    assert goodput["requests_per_s"] == 1.0
    assert goodput["targets"] == {"ttft": 0.2, "tpot": 0.02}


def test_a_target_met_exactly_is_met() -> None:
    run = Run()
    run.serve(4, 100, 10, decode_ms=20)
    slo = {"ttft": 0.1, "tpot": 0.02, "itl": 0.02, "e2e": 0.3}
    assert run.summary(slo=slo)["goodput"]["attainment"] == dict.fromkeys(slo, 1.0)


@pytest.mark.parametrize("slo", [{"ttl": 1.0}, {"ttft": 0.0}, {"tpot": -1.0}, {"e2e": float("nan")}])
def test_a_bad_target_is_refused(slo: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="--slo"):
        Run().summary(slo=slo)


def test_sums_beyond_64_bits_stay_exact() -> None:
    run = Run()
    for _ in range(3):
        waiting = run.script.arrive(1)
        run.script.wait(ns_to_quanta(4 * 10**18) - run.script.now)
        run.script.admit(waiting)
        run.script.chunk(waiting, 1, ns_to_quanta(1), with_decode=False)
        run.script.finish(waiting)
        run.script.now = 0
    assert run.summary()["ttft_ms"]["mean"] == pytest.approx(4e12)
