"""Replays of sessions on a hybrid model: later turns hit with snapshots, and not without."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import schedlab as api
from schedlab.errors import UsageError
from tests.unit.replay_helpers import same_bytes

BLOCK_TOKENS = 64
SESSIONS, TURNS = 4, 5


def sessions(folder: Path) -> Path:
    """Agent sessions as kv-cache-tester records them: each prompt is all that was said before and something new."""
    folder.mkdir()
    for number in range(SESSIONS):
        requests, prompt_tokens = [], 3000 + 2111 * number
        for turn in range(TURNS):
            output_tokens = 150 + 37 * turn
            ids = list(range(1, prompt_tokens // BLOCK_TOKENS + 1))
            row = {"t": 20.0 * turn, "type": "n", "in": prompt_tokens, "out": output_tokens, "hash_ids": ids}
            requests.append({**row, "api_time": 5.0, "think_time": 3.0 if turn else 0.0})
            prompt_tokens += output_tokens + 400 + 91 * turn
        document = {"id": f"s{number}", "block_size": BLOCK_TOKENS, "hash_id_scope": "local", "requests": requests}
        (folder / f"s{number}.json").write_text(json.dumps(document), "utf-8")
    return folder


def replay(trace: Path, slots: int | None = None, **options: Any) -> Any:
    settings = {} if slots is None else {"snapshot_slots": slots}
    return api.replay(trace, model="qwen3-next-80b-a3b", hardware="h200", tp=4, set=settings, **options)


def test_every_later_turn_goes_on_from_a_snapshot(tmp_path: Path) -> None:
    result = replay(sessions(tmp_path / "trace"), check="shadow")
    turns = result.requests.groupby("session", sort=False)
    for _, session in turns:
        prompts, cached = list(session["prompt_tokens"]), list(session["cached_tokens"])
        assert cached[0] == 0
        for before, now, found in zip(prompts, prompts[1:], cached[1:], strict=False):
            assert before <= found < now and found % 16 == 0
    snapshots, summary = result.summary["snapshots"], result.summary
    assert snapshots["used"] == summary["cache"]["hit_requests"] == SESSIONS * (TURNS - 1)
    assert summary["computed_prefill_tokens"] == summary["prompt_tokens"] - summary["cached_tokens"]
    assert summary["cached_tokens"] > 0.7 * summary["prompt_tokens"]


def test_without_snapshots_no_turn_hits_and_the_loss_is_said(tmp_path: Path) -> None:
    trace = sessions(tmp_path / "trace")
    without, some = replay(trace, 0, check=True), replay(trace)
    assert without.summary["cached_tokens"] == 0 == without.summary["snapshots"]["used"]
    assert without.summary["snapshots"]["cut_hits"] == SESSIONS * (TURNS - 1)
    assert without.summary["snapshots"]["cut_tokens"] >= some.summary["cached_tokens"]
    assert any("no state snapshots are kept" in note for note in without.notes)
    assert without.summary["ttft_ms"]["mean"] > some.summary["ttft_ms"]["mean"]


def test_too_few_slots_lose_hits(tmp_path: Path) -> None:
    trace = sessions(tmp_path / "trace")
    few, many = (replay(trace, slots, rate_scale=100).summary for slots in (3, 16))
    assert few["cached_tokens"] < many["cached_tokens"]
    assert few["snapshots"]["evicted"] > many["snapshots"]["evicted"] == 0


@pytest.mark.parametrize("slots", [2, 16])
def test_leaps_change_no_byte(tmp_path: Path, slots: int) -> None:
    trace = sessions(tmp_path / "trace")
    folders = [tmp_path / name for name in ("leapt", "stepped")]
    for folder in folders:
        replay(trace, slots, rate_scale=100, out=folder, events=True, leap=folder.name == "leapt")
    assert same_bytes(*folders) == []


@pytest.mark.parametrize("name", ["interval_blocks", "decode_blocks", "min_tokens", "depth_weight"])
@pytest.mark.parametrize("off", [{"prefix_cache": False}, {"snapshot_slots": 0}], ids=["no cache", "no slots"])
def test_a_rule_for_snapshots_where_none_are_kept_is_refused(name: str, off: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"--set snapshot_{name}: .*no state is ever kept"):
        api.replay(model="qwen3-next-80b-a3b", tp=4, limit=2, set={**off, f"snapshot_{name}": 1})
