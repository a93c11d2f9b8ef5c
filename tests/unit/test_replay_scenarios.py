"""Cases from public bug reports, through the Python API on tiny traces."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import schedlab
from experiments.options import options_from
from experiments.replay import run
from experiments.setup import prepare
from schedlab.errors import Stalled, UsageError
from schedlab.policies.fifo import Fifo
from schedlab.policies.view import View
from schedlab.sequence import Sequence
from tests.unit.replay_helpers import HEADER, SECOND_NS, session_trace, write_trace

STEP_NS = 10_000_000


def replayed(trace: Path, **options: Any) -> Any:
    """A run in which every step takes 10 ms, checked after every tick."""
    return schedlab.replay(trace, cost="constant", check=True, **options)


def test_no_output_is_cut_by_a_default_limit(tmp_path: Path) -> None:
    """T11: outputs of 20 and 3,000 tokens behind prompts of 100, at most 2,048 tokens together."""
    trace = write_trace(tmp_path / "t.csv", [(0, 100, 20), (0, 100, 3000)])
    result = replayed(trace, set={"max_model_len": 2048})
    assert list(result.requests["output_tokens"]) == [20, 1948]
    assert list(result.requests["finish_reason"]) == ["stop", "length"]
    assert result.summary["output_tokens"] == 1968
    assert result.summary["cut_outputs"] == {"requests": 1, "tokens": 1052}
    assert "1 output was cut by a limit; 1,052 tokens of the trace did not come" in result.notes


def test_all_rows_are_sent_once_in_file_order(tmp_path: Path) -> None:
    """T15: 25 rows; no limit, 10, and 40."""
    trace = write_trace(tmp_path / "t.csv", [(row, 10 + row, 2) for row in range(25)])
    assert list(replayed(trace).requests["prompt_tokens"]) == list(range(10, 35))
    ten = replayed(trace, limit=10)
    assert list(ten.requests["prompt_tokens"]) == list(range(10, 20))
    assert "25 rows read, 15 dropped (past the limit of 10), 10 sent" in ten.notes
    forty = replayed(trace, limit=40)
    assert forty.summary["trace_rows"] == {"read": 25, "kept": 25, "dropped": {}, "reordered": 0, "sent": 25}
    assert "limit 40: the trace has only 25 rows; all are kept, none is repeated" in forty.notes


def test_outputs_of_no_token_and_of_one_end_without_a_decode_step(tmp_path: Path) -> None:
    """D10: outputs of 0 and 1, and a prompt of 1."""
    trace = write_trace(tmp_path / "t.csv", [(0, 40, 0), (SECOND_NS, 40, 1), (2 * SECOND_NS, 1, 2)])
    result = replayed(trace)
    assert list(result.requests["output_tokens"]) == [0, 1, 2]
    assert list(result.requests["finish_reason"]) == ["stop"] * 3
    assert result.summary["steps"] == 4, "a prefill each, and one decode step for the last"


@pytest.mark.parametrize(
    "rows", [[(0, 40, 0)], [(0, 40, 1)], [(0, 9000, 5)]], ids=["no output", "one token", "all refused"]
)
def test_a_summary_of_nothing_has_no_figure_that_is_no_number(tmp_path: Path, rows: list[tuple[int, ...]]) -> None:
    """M10: TPOT is absent below two tokens, and nothing is NaN or infinite."""
    result = replayed(write_trace(tmp_path / "t.csv", rows), slo={"tpot": "100ms"})
    assert result.summary["tpot_ms"] == {"count": 0}
    json.dumps([result.summary, result.config, result.run], allow_nan=False)
    result.report(tmp_path / "report.html")


def test_prompts_beyond_the_model_are_refused_and_counted_by_reason(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.csv", [(0, 9000, 5), (0, 10, 5), (1, 8192, 5), (2, 9500, 5)])
    result = replayed(trace)
    assert list(result.requests["finish_reason"]) == ["refused", "stop", "refused", "refused"]
    assert result.summary["requests"]["refused"] == 3
    assert result.summary["refused"] == [
        {
            "count": 3,
            "first_request": 0,
            "reason": "the prompt of 9000 tokens can never fit: max_model_len is 8192",
        }
    ]
    assert any(note.startswith("3 refused; the first is request 0: ") for note in result.notes)


def test_a_prompt_beyond_the_pool_does_not_stop_the_others(tmp_path: Path) -> None:
    """S01: 50 blocks of 16; a prompt of 1,002 tokens, then one of 16."""
    trace = write_trace(tmp_path / "t.csv", [(0, 1002, 50), (1_000_000, 16, 4)])
    result = replayed(trace, num_blocks=50, set={"max_model_len": 2048})
    assert list(result.requests["finish_reason"]) == ["refused", "stop"]
    assert "needs 63 blocks, the pool has 50" in result.summary["refused"][0]["reason"]


def test_a_request_that_outgrows_the_whole_pool_fails_with_its_reason(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.csv", [(0, 100, 900)])
    result = replayed(trace, num_blocks=20)
    assert list(result.requests["finish_reason"]) == ["error"]
    assert result.summary["failed"][0]["first_request"] == 0
    assert any(note.startswith("1 failed; the first is request 0: it holds all 20 blocks") for note in result.notes)


def test_the_later_turn_comes_its_think_time_after_the_end_of_the_turn_before(tmp_path: Path) -> None:
    requests = replayed(session_trace(tmp_path / "t.csv")).requests.set_index("request_id")
    arrival, finished = requests["arrival_ns"], requests["finished_ns"]
    assert arrival[0] == 0 and arrival[3] == 5_000_000 and arrival[6] == 7_000_000
    assert arrival[1] - finished[0] == SECOND_NS
    assert arrival[2] == finished[1], "no think time: at the very instant"
    assert arrival[4] - finished[3] == arrival[5] - finished[4] == 250_000_000
    assert list(requests.sort_index()["session"]) == ["a", "a", "a", "b", "b", "b", ""]


def test_a_session_whose_turn_is_refused_sends_no_more_turns(tmp_path: Path) -> None:
    header = f"{HEADER},session,turn,think_ns"
    rows = [(0, 50, 5, "a", 0, -1), (0, 9000, 5, "a", 1, 5), (0, 60, 5, "a", 2, 5), (3, 10, 2, "b", 0, -1)]
    result = replayed(write_trace(tmp_path / "t.csv", rows, header))
    assert sorted(result.requests["request_id"]) == [0, 1, 3]
    assert result.summary["unsent_turns"] == 1
    assert any(note.startswith("1 turn was never sent") for note in result.notes)


def test_the_traces_own_limit_is_each_requests_limit(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.csv", [(0, 10, 50, 7), (0, 10, 50, -1)], f"{HEADER},max_tokens")
    assert list(replayed(trace).requests["output_tokens"]) == [7, 50]
    assert list(replayed(trace, max_tokens=9).requests["output_tokens"]) == [7, 9]


@pytest.mark.parametrize(("longest", "limit"), [(0, 1), (1, 1), (64, 64), (65, 128)])
def test_the_limit_of_all_others_is_a_power_of_two(tmp_path: Path, longest: int, limit: int) -> None:
    result = replayed(write_trace(tmp_path / "t.csv", [(0, 10, longest)]))
    assert result.config["max_tokens"] == {"rule": "auto", "tokens": limit}
    assert any(note.startswith(f"max_tokens is {limit} (the smallest power of two") for note in result.notes)


def test_an_oracle_lets_a_reserving_engine_hold_more_at_once_and_says_so(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.csv", [(0, 16, 17)] * 6 + [(0, 16, 200)])
    batch = {}
    for rule in ("auto", "oracle"):
        result = replayed(trace, preset="orca", num_blocks=40, max_tokens=rule, set={"max_model_len": 512})
        batch[rule] = result.summary["batch"]["peak"]
        assert any("oracle" in note for note in result.notes) is (rule == "oracle")
    assert batch["oracle"] > batch["auto"]


def test_the_rate_scale_divides_gaps_and_nothing_else(tmp_path: Path) -> None:
    """T07, through a run."""
    trace = write_trace(tmp_path / "t.csv", [(1000, 10, 2), (1010, 11, 2), (1030, 12, 2)])
    requests = replayed(trace, rate_scale=2).requests
    assert list(requests["arrival_ns"]) == [0, 5, 15] and list(requests["prompt_tokens"]) == [10, 11, 12]


class NeverAdmits(Fifo):
    """Refuses for ever."""

    def admit(self, view: View, sequence: Sequence) -> bool:
        return False


@pytest.mark.parametrize("closed_loop", [False, True])
def test_a_run_that_nothing_will_move_names_who_starves(tmp_path: Path, closed_loop: bool) -> None:
    trace = session_trace(tmp_path / "t.csv") if closed_loop else write_trace(tmp_path / "t.csv", [(0, 10, 5)])
    setup = prepare(options_from({"trace": trace}))
    with pytest.raises(Stalled, match=r"request 0 \(pending\) cannot go on"):
        run(replace(setup, policy=NeverAdmits(setup.scheduler)))


def test_a_step_takes_what_the_cost_model_says(tmp_path: Path) -> None:
    result = replayed(write_trace(tmp_path / "t.csv", [(0, 10, 3)]), cost_set={"step_ns": STEP_NS})
    assert list(result.requests["first_token_ns"]) == [STEP_NS]
    assert list(result.requests["finished_ns"]) == [3 * STEP_NS]


def test_an_empty_block_of_hash_ids_passes_through(tmp_path: Path) -> None:
    header = f"{HEADER},hash_ids,hash_block_tokens"
    trace = write_trace(tmp_path / "t.csv", [(0, 40, 3, "7 8", 16), (0, 10, 3, "-", 16)], header)
    assert list(replayed(trace).requests["output_tokens"]) == [3, 3]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"colour": "red"}, "'colour' is no option"),
        ({"tp": "two"}, "tp is 'two'"),
        ({"rate_scale": "2"}, "rate_scale is '2'"),
        ({"slo": 2}, "slo is 2"),
        ({"model": 8}, "model is 8"),
    ],
)
def test_the_api_names_a_wrong_argument(options: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        schedlab.replay(**options)


def test_shared_blocks_that_nobody_reuses_are_mentioned(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.csv", [(0, 40, 3, "7 8", 16)], f"{HEADER},hash_ids,hash_block_tokens")
    without = replayed(trace, set={"prefix_cache": False})
    assert any("the prefix cache is off" in note for note in without.notes) and "cache" not in without.summary
    assert not any("prefix cache" in note for note in replayed(trace).notes)
