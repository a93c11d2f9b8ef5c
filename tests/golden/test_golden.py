"""Golden logs: regenerated on each device, with and without leaps, compared byte by byte, and said in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import expect_fates, expect_memory, expect_steps, harness
from tests.conformance.devices import DEVICES
from tests.conformance.expectation import check
from tests.conformance.scenario import Case
from tests.golden.update import FOLDER, golden_cases

VOCABULARIES = (expect_fates, expect_memory, expect_steps)
GOLDEN = list(golden_cases())
NAMES = [log.stem for _, log in GOLDEN]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("leap", [True, False], ids=["leap", "step"])
@pytest.mark.parametrize(("case", "log"), GOLDEN, ids=NAMES)
def test_the_log_is_the_golden_one(case: Case, log: Path, leap: bool, device: str, tmp_path: Path) -> None:
    written = tmp_path / log.name
    check(harness.run(case, leap=leap, device=device, log=written), case.expect)
    hint = f"{log.name} has changed; if it should have, run python -m tests.golden.update"
    assert written.read_text() == log.read_text(), hint
    assert written.read_bytes() == log.read_bytes()


def test_no_golden_log_is_left_without_a_scenario() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.jsonl")) == sorted(NAMES)


def _events(name: str, kind: str = "") -> list[dict[str, Any]]:
    lines = (FOLDER / f"{name}.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if not kind or event["ev"] == kind]


def test_plain_decode_prefills_alone_and_then_decodes_four_three_and_one_rows() -> None:
    steps = _events("plain_decode", "step")
    assert [len(step["chunks"]) for step in steps] == [1, 1, 1, 1, 0, 0, 0, 0, 0, 0]
    assert [step["decode"] for step in steps] == [0, 0, 0, 0, 4, 4, 4, 3, 1, 1]
    assert [(end["id"], end["outputs"]) for end in _events("plain_decode", "finished")] == [
        (3, 4),
        (2, 5),
        (4, 5),
        (1, 7),
    ]


def test_mixed_prefill_advances_the_decoding_row_in_every_step_but_the_newcomers_first() -> None:
    steps = _events("mixed_prefill", "step")
    with_s2 = [step for step in steps if any(chunk[0] == 2 for chunk in step["chunks"])]
    assert [(step["chunks"][0][1:], step["decode"]) for step in with_s2] == [
        ([0, 8, False], 0),
        ([8, 8, False], 1),
        ([16, 4, True], 1),
    ]


def test_preempt_requeue_gives_each_request_what_it_gets_with_room_for_all() -> None:
    tight, roomy = ("preempt_requeue.four_blocks", "preempt_requeue.room_for_all")
    ends = [{end["id"]: (end["outputs"], end["why"]) for end in _events(name, "finished")} for name in (tight, roomy)]
    assert ends[0] == ends[1]
    (preemption,) = _events(tight, "preempted")
    assert (preemption["id"], preemption["freed"]) == (1, 1)
    (resumption,) = _events(tight, "resumed")
    ended = next(end for end in _events(tight, "finished") if end["id"] == 2)
    assert resumption["t"] == ended["t"], "it returns in the tick in which another ends"
    rebuilt = next(step for step in _events(tight, "step") if step["t"] == resumption["t"])
    assert rebuilt["chunks"] == [[1, 0, 7, True]] and rebuilt["decode"] == 1


def test_batched_prefill_waves_gives_the_first_prompt_the_idle_step_and_the_second_pieces() -> None:
    steps = _events("batched_prefill_waves", "step")
    assert [(step["chunks"], step["decode"]) for step in steps] == [
        ([[1, 0, 17, True]], 0),
        ([[2, 0, 8, False]], 0),
        ([[2, 8, 8, False]], 1),
        ([[2, 16, 1, True]], 1),
        *[([], 2)] * 3,
    ]


def test_batched_mixed_fuses_the_pieces_of_both_late_prompts_with_the_row() -> None:
    steps = [step for step in _events("batched_mixed", "step") if step["t"] >= 3_000_000]
    assert [(step["chunks"], step["decode"]) for step in steps[:5]] == [
        ([[2, 0, 8, False]], 0),
        ([[3, 0, 8, False]], 0),
        ([[2, 8, 8, False], [3, 8, 8, False]], 1),
        ([[2, 16, 4, True], [3, 16, 4, True]], 1),
        ([], 3),
    ]


def test_a_victim_returns_at_the_end_of_the_tick_that_preempted_it_when_another_ends_in_it() -> None:
    name = "preempt_requeue.back_in_the_same_tick"
    (preemption,), (resumption,) = _events(name, "preempted"), _events(name, "resumed")
    (step,) = [step for step in _events(name, "step") if step["t"] == preemption["t"]]
    assert resumption["t"] == step["end"]


@pytest.mark.parametrize(
    ("blocks", "start", "growth"), [("seven", 16, [[2, 2], [3, 1]]), ("eight", 32, [[2, 2], [3, 7]])]
)
def test_preempt_requeue_cached_starts_behind_what_the_others_left_of_its_own_blocks(
    blocks: str, start: int, growth: list[list[int]]
) -> None:
    """s1 held blocks 0, 1 and 2. Its empty one goes first, then what was never used, then the deeper of the cached."""
    name = f"preempt_requeue_cached.{blocks}_blocks"
    ends = [
        {end["id"]: (end["outputs"], end["why"]) for end in _events(log, "finished")}
        for log in (name, "preempt_requeue_cached.room_for_all")
    ]
    assert ends[0] == ends[1]
    (preemption,), (resumption,) = _events(name, "preempted"), _events(name, "resumed")
    steps = _events(name, "step")
    assert next(step["blocks"] for step in steps if step["t"] == preemption["t"]) == growth
    rebuilt = next(step for step in steps if step["t"] == resumption["t"])
    assert rebuilt["chunks"] == [[1, start, 39 - start, True]] and rebuilt["decode"] == 1


def test_spill_swap_out_in_goes_on_with_the_pending_token() -> None:
    name = "spill_swap_out_in"
    out, back = _events(name, "swapped_out")[0], _events(name, "restored")[0]
    admitted = _events(name, "admitted")[1]
    assert (out["id"], out["to"], out["blocks"]) == (1, "disk", 3)
    assert (admitted["id"], admitted["t"]) == (2, out["t"]), "the newcomer comes in at once"
    prefill = next(step for step in _events(name, "step") if step["t"] >= out["t"])
    assert prefill["chunks"] == [[2, 0, 96, True]] and prefill["t"] == out["t"] + 750_000, "it waits for the copy"
    (ended, _) = _events(name, "finished")
    assert (ended["id"], ended["t"]) == (2, _events(name, "restoring")[0]["t"])
    after = [step for step in _events(name, "step") if step["t"] >= back["t"]]
    assert [(step["chunks"], step["decode"], step["ctx"]) for step in after] == [([], 1, 35 + i) for i in range(5)]


def test_request_timeout_ends_at_the_end_of_the_step_that_passed_the_deadline() -> None:
    (end,) = _events("request_timeout", "finished")
    assert end["t"] == _events("request_timeout", "step")[-1]["end"]


def test_every_log_ends_with_nothing_waiting_and_a_clock_that_never_went_back() -> None:
    for name in NAMES:
        events = _events(name)
        assert events[-1]["ev"] == "finished"
        times = [event.get("end", event["t"]) for event in events]
        assert times == sorted(times)
