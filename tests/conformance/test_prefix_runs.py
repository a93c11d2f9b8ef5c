"""Whole runs with the prefix cache on and off: the same outputs, and no more speed than there is (D07, section F)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance import harness
from tests.conformance.made import ask, made_case, readers, some_leave
from tests.conformance.recorder import Recorder
from tests.conformance.scenario import FOLDER, cases
from tests.conformance.texts import Texts


def _end_ms(run: Recorder) -> float:
    return run.steps[-1].end_ns / 1e6


def test_d07_the_cache_changes_throughput_under_extreme_pressure_by_less_than_a_fifth() -> None:
    """inference-sim/inference-sim#1121: about 45 times too high as reported."""
    ends = {case.name: _end_ms(harness.run(case, leap=True)) for case in cases(FOLDER / "part1" / "D07.toml")}
    assert ends["with_cache"] == pytest.approx(ends["no_cache"], rel=0.2)
    assert min(ends.values()) >= 512 * 64 / 10


@pytest.mark.parametrize("leap", [True, False])
@pytest.mark.parametrize("fusion", ["none", "continue", "all"])
def test_a_refused_head_that_a_new_prompt_makes_smaller_comes_in_with_the_next_plan(fusion: str, leap: bool) -> None:
    """Both have one text. R1 lacks 4 blocks and 2 are free, until R0's first 3 can be found, within a tick."""
    texts = Texts()
    asks = (ask(0, texts.prompt([("text", 61)], ""), 20), ask(1, texts.prompt([("text", 51)], ""), 10))
    run = harness.run(made_case(asks, {"blocks": 6}, {"prefix_cache": True, "fusion": fusion}), leap=leap)
    assert run.lived["R1"].started_ns == (1_000_000 if fusion == "all" else 2_000_000)
    assert run.lived["R1"].cached == 48


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("setup", [{"blocks": 200}, {"blocks": 24}, {"blocks": 24, "policy": "priority"}], ids=str)
def test_the_cache_never_changes_what_a_request_gets(setup: dict[str, Any], seed: int) -> None:
    """Contents of blocks are checked at every read; here also that all end alike, and that the cache is of use."""
    asks = readers(120, seed)
    config = {"max_num_seqs": 16, "max_num_batched_tokens": 64}
    runs = [harness.run(made_case(asks, setup, {**config, "prefix_cache": on}), leap=True) for on in (False, True)]
    outcomes = [{name: (str(one.reason), len(one.token_ns)) for name, one in run.lived.items()} for run in runs]
    assert outcomes[0] == outcomes[1]
    assert sum(one.cached for one in runs[1].lived.values()) > 300
    assert not any(one.cached for one in runs[0].lived.values())
    computed = [sum(one.computed for one in run.lived.values()) for run in runs]
    recomputed = [sum(one.recomputed for one in run.lived.values()) for run in runs]
    spared = sum(one.spared for one in runs[1].lived.values())
    assert computed[0] - recomputed[0] == computed[1] - recomputed[1] + spared


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"align_chunks": True},
        {"fusion": "none"},
        {"preemption": "host", "swap_host_gib": 1},
        {"preemption": "disk", "swap_disk_gib": 1, "swap_host_gib": 1},
        {"preemption": "cheapest", "swap_host_gib": 1},
        {"admission": "commit", "watermark_tokens": 0},
    ],
    ids=str,
)
def test_cache_swap_aborts_and_pressure_together_keep_every_law(config: dict[str, Any]) -> None:
    """The tiers hold 16 blocks each, so some victims find room and others none; `cheapest` may swap nobody."""
    asks = readers(150, seed=5)
    setup = {"blocks": 22, "block_mib": 64, "copy_ms": 0.3}
    fields = {"max_num_seqs": 12, "max_num_batched_tokens": 48, "prefix_cache": True, **config}
    run = harness.run(made_case(asks, setup, fields, some_leave(asks, 3)), leap=True)
    assert len(run.preempted) + len(run.swapped) > 5
    assert sum(one.cached for one in run.lived.values()) > 300
    if config.get("preemption") in ("host", "disk"):
        assert run.swapped and run.restored
