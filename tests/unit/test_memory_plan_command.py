"""`schedlab memory`, and a replay that plans with the same function."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import schedlab as api
from schedlab.memory.reserve import MemoryPlan
from tests.unit.replay_helpers import schedlab, small_trace

MonkeyPatch = pytest.MonkeyPatch
Capture = pytest.CaptureFixture[str]

BUDGETS = ["utilisation_percent", "max_num_seqs", "max_num_batched_tokens"]
NUMBERS = [*BUDGETS, *(field.name for field in fields(MemoryPlan))]


def planned(monkeypatch: MonkeyPatch, capsys: Capture, *flags: object) -> dict[str, Any]:
    ended = schedlab(monkeypatch, capsys, "memory", "--json", *flags)
    assert (ended.code, ended.err) == (0, "")
    document: dict[str, Any] = json.loads(ended.out)
    return document


def test_json_names_every_owner_with_its_count_and_source(monkeypatch: MonkeyPatch, capsys: Capture) -> None:
    document = planned(monkeypatch, capsys, "--model", "qwen3-next-80b-a3b", "--hardware", "h200", "--tp", 4)
    assert list(document) == ["model", "hardware", "tp", "preset", *NUMBERS, "owners", "notes"]
    assert all(type(document[name]) is int for name in NUMBERS)
    assert (document["model"], document["hardware"], document["preset"]) == ("Qwen3-Next-80B-A3B", "H200", "vllm")
    assert sum(one["bytes"] for one in document["owners"]) == document["total_bytes"]
    for one in document["owners"]:
        assert one.keys() == {"owner", "bytes", "how", "source"} and one["how"] and one["source"]
    assert document["snapshot_slots"] == 16
    assert any("up to one of 16 state snapshots" in note for note in document["notes"])


def test_the_table_shows_owners_pool_and_sources(monkeypatch: MonkeyPatch, capsys: Capture) -> None:
    ended = schedlab(monkeypatch, capsys, "memory", "--model", "llama-3-8b", "--hardware", "h100")
    assert ended.code == 0
    for text in ("weights", "16,060,522,496", "captured graphs", "kept back", "85,520,809,984", "source: weights"):
        assert text in ended.out
    assert "28,380 blocks hold 454,080 tokens; one sequence of max_model_len 8,192 takes 512 blocks" in ended.out
    assert "so 55 fit (256 seats)" in ended.out
    assert "sequence state" not in ended.out


def test_seats_are_set_by_either_name_but_not_both(monkeypatch: MonkeyPatch, capsys: Capture) -> None:
    one = planned(monkeypatch, capsys, "--max-num-seqs", 32)
    assert one == planned(monkeypatch, capsys, "--set", "max_num_seqs=32")
    assert one["max_num_seqs"] == 32
    ended = schedlab(monkeypatch, capsys, "memory", "--max-num-seqs", 3, "--set", "max_num_seqs=3")
    assert ended.code == 2 and "give one of them" in ended.err


def test_snapshots_are_planned_for_hybrids_and_cut_at_the_floor(monkeypatch: MonkeyPatch, capsys: Capture) -> None:
    hybrid = ("--model", "granite-4.0-h-tiny", "--hardware", "h100", "--max-num-seqs", 16)
    plans = [planned(monkeypatch, capsys, *hybrid, "--snapshot-slots", slots) for slots in (0, 16, 50)]
    assert [plan["snapshot_slots"] for plan in plans] == [0, 16, 50]
    assert plans[0]["num_blocks"] > plans[1]["num_blocks"] > plans[2]["num_blocks"]
    assert plans[1] == planned(monkeypatch, capsys, *hybrid)
    assert plans[2] == planned(monkeypatch, capsys, *hybrid, "--set", "snapshot_slots=50")
    owners = {one["owner"]: one["bytes"] for one in plans[2]["owners"]}
    assert owners["state snapshots"] == 50 * plans[2]["state_bytes_per_seq"] > 0
    cut = planned(monkeypatch, capsys, *hybrid, "--snapshot-slots", 10**6)
    assert cut["kv_tokens"] >= max(16 * 4096, cut["max_model_len"])
    assert any("1,000,000 state snapshots asked for" in note for note in cut["notes"])


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--model", "llama-3.1-8b", "--hardware", "l4"], "--set max_model_len=32704"),
        (["--model", "llama-3-70b"], "it fits with --tp 2"),
        (["--max-num-seqs", "0"], "max_num_seqs is 0"),
        (["--model", "granite-4.0-h-tiny", "--snapshot-slots", "-1"], "snapshot_slots is -1"),
        (["--snapshot-slots", "4", "--set", "snapshot_slots=4"], "give one of them"),
        (["--set", "snapshot_min_tokens=64"], "--set snapshot_min_tokens: Llama-3-8B has no recurrent layers"),
        (["--model", "granite-4.0-h-tiny", "--preset", "met", "--snapshot-slots", "4"], "prefix_cache is off"),
        (["--model", "granite-4.0-h-tiny", "--set", "snapshot_depth_weight=9"], "give at most 8"),
        (["--snapshot-slots", "4"], "has no recurrent layers"),
        (["--memory-percent", "0"], "--memory-percent is 0"),
        (["--tp", "3"], "--tp 3"),
        (["--model", "granite-4.0-h-tiny", "--tp", "8"], "48 recurrent heads"),
    ],
)
def test_a_bad_plan_is_refused_in_one_line(
    monkeypatch: MonkeyPatch, capsys: Capture, flags: list[str], named: str
) -> None:
    ended = schedlab(monkeypatch, capsys, "memory", *flags)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert named in ended.err


def test_a_replay_plans_as_the_command_does(monkeypatch: MonkeyPatch, capsys: Capture, tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "trace.csv", 12)
    document = planned(monkeypatch, capsys, "--model", "qwen3-8b", "--hardware", "a100", "--preset", "sarathi")
    result = api.replay(trace, model="qwen3-8b", hardware="a100", preset="sarathi")
    memory = result.config["memory"]
    assert memory == {name: document[name] for name in memory}
    ended = schedlab(monkeypatch, capsys, "replay", trace, "--model", "llama-3.1-8b", "--hardware", "l4")
    assert ended.code == 2 and "--set max_model_len=32704" in ended.err


@pytest.mark.parametrize("preset", ["vllm", "met", "sarathi", "orca"])
@pytest.mark.parametrize("model", ["qwen3-next-80b-a3b", "nemotron-h-8b", "granite-4.0-h-small", "granite-4.0-h-tiny"])
def test_every_hybrid_replays_and_says_what_its_prefix_cache_can_do(tmp_path: Path, model: str, preset: str) -> None:
    trace = small_trace(tmp_path / "trace.csv", 12)
    result = api.replay(trace, model=model, hardware="h200", tp=4, preset=preset, check=True)
    assert result.summary["requests"]["finished"]["stop"] == 12
    scheduler = result.config["scheduler"]
    assert (scheduler["prefix_cache"], scheduler["snapshot_slots"]) == ((True, 16) if preset == "vllm" else (False, 0))
    said = "up to one of 16 state snapshots" if preset == "vllm" else "the prefix cache is off"
    assert any(said in note for note in result.notes)


def test_a_hybrid_leaps_as_it_steps(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "trace.csv", 60)
    runs = [
        api.replay(trace, model="nemotron-h-8b", hardware="l40s", num_blocks=64, leap=leap, set={"max_num_seqs": 8})
        for leap in (True, False)
    ]
    assert runs[0].requests.equals(runs[1].requests)
