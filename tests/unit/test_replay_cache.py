"""Prefix cache and swap through a replay: which tokens hit, what sessions leave, what is refused, what is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import schedlab
from experiments.memory import plan_for
from experiments.options import options_from
from experiments.setup import prepare
from schedlab.device import CopyKind
from schedlab.errors import UsageError
from tests.unit.replay_helpers import HEADER, SECOND_NS, write_trace

IDS = f"{HEADER},hash_ids,hash_block_tokens"
TURNS = f"{HEADER},session,turn,think_ns,hash_ids,hash_block_tokens"


def replayed(trace: Path, **options: Any) -> Any:
    return schedlab.replay(trace, cost="constant", check=True, **options)


def cached(result: Any) -> list[int]:
    return list(result.requests.sort_values("request_id")["cached_tokens"])


def test_a_prompt_that_begins_like_an_earlier_one_skips_its_blocks(tmp_path: Path) -> None:
    rows = [(0, 70, 3, "1 2 3 4", 16), (SECOND_NS, 70, 3, "1 2 3 9", 16), (2 * SECOND_NS, 64, 3, "1 2 3 4", 16)]
    result = replayed(write_trace(tmp_path / "t.csv", rows, IDS))
    assert cached(result) == [0, 48, 48], "of a prompt of full blocks the last is computed: a token must be left"
    cache = result.summary["cache"]
    assert (cache["hit_tokens"], cache["hit_requests"], cache["evicted_blocks"]) == (96, 2, 0)
    assert cache["hit_share"] == round(96 / 204, 6) and cache["hit_tokens_on_return"] == 0
    assert cache["cached_blocks"] == 5
    assert result.summary["computed_prefill_tokens"] == 204 - 96


def session(tmp_path: Path, second_ids: str, second_prompt: int = 100) -> Path:
    """40 tokens of prompt (two blocks of 16) and 40 of output, then a longer prompt."""
    rows = [(0, 40, 40, "s", 0, -1, "1 2", 16), (0, second_prompt, 4, "s", 1, 5, second_ids, 16)]
    return write_trace(tmp_path / "t.csv", rows, TURNS)


def test_the_next_turn_hits_what_the_answer_before_it_filled(tmp_path: Path) -> None:
    """The answer fills blocks 3 to 5 but for its last token, which was never computed: 79 tokens, four full blocks."""
    assert cached(replayed(session(tmp_path, "1 2 3 4 5 6"))) == [0, 64]


def test_a_next_turn_that_begins_differently_or_lacks_the_answer_tells_no_keys(tmp_path: Path) -> None:
    assert cached(replayed(session(tmp_path, "1 7 3 4 5 6"))) == [0, 16]
    assert cached(replayed(session(tmp_path, "1 2 3 4", second_prompt=70))) == [0, 32]


@pytest.mark.parametrize(("block_size", "hit"), [(8, 80), (16, 80), (32, 64), (160, 0)])
def test_blocks_of_the_trace_are_cut_or_joined_to_ours(tmp_path: Path, block_size: int, hit: int) -> None:
    ids = "1 2 3 4 5"
    trace = write_trace(tmp_path / "t.csv", [(0, 87, 3, ids, 16), (SECOND_NS, 87, 3, ids, 16)], IDS)
    result = replayed(trace, block_size=block_size)
    assert cached(result) == [0, hit] and result.config["scheduler"]["block_size"] == block_size


def test_a_block_size_that_does_not_fit_is_refused_before_the_run_with_both(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.csv", [(0, 87, 3, "1 2 3", 16), (9, 87, 3, "1 2", 24)], IDS)
    with pytest.raises(UsageError, match=r"block size 16 and the blocks of 24 tokens that .*t\.csv names"):
        prepare(options_from({"trace": trace}))
    assert cached(replayed(trace, set={"prefix_cache": False})) == [0, 0]


def test_one_setting_of_the_block_size_is_enough() -> None:
    with pytest.raises(UsageError, match="--block-size and --set block_size both"):
        options_from({"block_size": 16, "set": {"block_size": 16}})
    with pytest.raises(UsageError, match="--block-size is 0"):
        options_from({"block_size": 0})


def test_a_short_pool_evicts_and_says_so(tmp_path: Path) -> None:
    rows = [
        (number * SECOND_NS, 64, 2, " ".join(str(10 * number + part) for part in range(4)), 16) for number in range(9)
    ]
    result = replayed(write_trace(tmp_path / "t.csv", rows, IDS), num_blocks=12)
    cache = result.summary["cache"]
    assert cache["evicted_blocks"] > 20 and cache["cached_blocks"] <= 12 and cache["hit_tokens"] == 0


def test_preempted_requests_that_find_their_blocks_again_are_counted_apart(tmp_path: Path) -> None:
    rows = [(0, 48, 60, f"{10 * n} {10 * n + 1} {10 * n + 2}", 16) for n in range(4)]
    result = replayed(write_trace(tmp_path / "t.csv", rows, IDS), num_blocks=18)
    assert result.summary["preemptions"] > 0 and cached(result) == [0] * 4
    assert result.summary["cache"]["hit_tokens"] == 0 < result.summary["cache"]["hit_tokens_on_return"]


@pytest.mark.parametrize(("hardware", "gb_per_s"), [("a100-80", 25.6), ("h100", 51.2)])
def test_copies_take_blocks_of_the_plan_over_links_of_the_gpu(tmp_path: Path, hardware: str, gb_per_s: float) -> None:
    trace = write_trace(tmp_path / "t.csv", [(0, 40, 90)] * 12)
    options = {"num_blocks": 50, "hardware": hardware, "set": {"preemption": "host", "swap_host_gib": 9}}
    result = replayed(trace, **options)
    setup = options_from({"trace": trace, "hardware": hardware})
    prepared = prepare(setup)
    block_bytes = plan_for(setup, prepared.hardware, prepared.model).block_bytes
    out, back = (result.summary["swap"]["links"][kind] for kind in (CopyKind.DEVICE_TO_HOST, CopyKind.HOST_TO_DEVICE))
    assert out["bytes"] % block_bytes == 0 and out["copies"] == result.summary["swaps"] == sum(result.requests["swaps"])
    assert out["busy_s"] == pytest.approx(out["copies"] * 10e-6 + out["bytes"] / (gb_per_s * 1e9), abs=1e-6)
    assert back["overlap_share"] > 0 and 0 <= out["overlap_share"] <= 1
    assert any(f"{gb_per_s:g} GB/s each way between GPU and host (80 %" in note for note in result.notes)


def test_steps_that_read_a_window_from_disk_count_its_blocks(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.csv", [(0, 60, 60)])
    result = replayed(trace, set={"window_blocks": 3, "swap_disk_gib": 1, "prefix_cache": False})
    swap = result.summary["swap"]
    assert swap["far_block_reads"] > 60 and swap["links"]["host_to_disk"]["copies"] >= 4
    assert list(result.requests["output_tokens"]) == [60]


def test_a_request_that_ends_with_an_error_leaves_only_what_was_computed_before(tmp_path: Path) -> None:
    """Another session says the same later: it finds the answer too, but for an answer that ended with an error."""
    ids = "1 2 3 4 5 6"
    first = [(0, 40, 40, "s", 0, -1, "1 2", 16), (0, 100, 4, "s", 1, 5, ids, 16)]
    later = (9 * SECOND_NS, 100, 4, "other", 0, -1, ids, 16)
    trace = write_trace(tmp_path / "t.csv", [*first, later], TURNS)
    failed = replayed(trace, faults={"step_failure": [{"steps": [30]}]})
    assert next(iter(failed.requests["finish_reason"])) == "error"
    assert cached(replayed(trace))[-1] > cached(failed)[-1] == 32
