"""Weka sessions: closed loop, ids local to a file, sub-agents."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from schedlab.errors import UsageError
from tests.shared_data import shared
from traces.open import open_trace
from traces.options import ReadOptions
from traces.summary import summarise
from traces.trace import Trace

S = 1_000_000_000


def request(t: float, tokens: int, ids: list[int], **more: object) -> dict[str, object]:
    return {"t": t, "type": "n", "in": tokens, "out": 5, "hash_ids": ids, "api_time": 2.0, **more}


def session(name: str, *requests: dict[str, object]) -> dict[str, object]:
    return {"id": name, "block_size": 64, "hash_id_scope": "local", "requests": list(requests)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    agent = {
        "type": "subagent",
        "t": 90.0,
        "agent_id": "x",
        "requests": [request(0.0, 64, [7]), request(5.0, 64, [7], think_time=1.0)],
    }
    first = session(
        "one", request(0.0, 130, [1, 2], think_time=0.0), agent, request(30.0, 200, [1, 2, 3], think_time=4.5)
    )
    no_end = request(0.0, 63, [])
    del no_end["api_time"]
    second = session("two", no_end, request(11.0, 64, [1]), request(20.0, 64, [1]))
    (tmp_path / "a.json").write_text(json.dumps(first, indent=1))
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(json.dumps(second).encode()))
    (tmp_path / "LICENSE").write_text("x")
    return tmp_path


def read(path: Path, **options: int) -> Trace:
    return open_trace(path, options=ReadOptions(**options))  # type: ignore[arg-type]


def test_a_folder_of_sessions_is_a_closed_loop_in_the_order_of_their_starts(folder: Path) -> None:
    trace = read(folder, session_gap_ns=60 * S)
    found = [(r.session, r.turn, r.arrival_ns, r.think_ns) for r in trace.records()]
    assert found == [
        ("one", 0, 0, -1),
        ("one", 1, 0, 4 * S + S // 2),
        ("two", 0, 60 * S, -1),
        ("two", 1, 0, 11 * S),
        ("two", 2, 0, 7 * S),
        ("one/x", 0, 90 * S, -1),
        ("one/x", 1, 0, S),
    ]
    assert trace.closed_loop


def test_what_was_decided_for_the_sessions_is_reported(folder: Path) -> None:
    notes = " ".join(read(folder).report.notes)
    assert "60 s apart" in notes
    assert "1 sub-agents with 2 requests" in notes
    assert "1 use the gap from the recorded end" in notes
    assert "1 the gap from its start" in notes


def test_ids_of_different_files_never_meet_and_those_of_a_sub_agent_stay_with_its_parent(folder: Path) -> None:
    records = {(r.session, r.turn): r for r in read(folder).records()}
    assert records["one", 0].hash_ids == (1, 2)
    assert records["one/x", 0].hash_ids == (7,)
    assert records["two", 0].hash_ids == ()
    assert records["two", 1].hash_ids not in ((1,), (2,), (3,), (7,))
    assert records["two", 1].hash_ids == records["two", 2].hash_ids


def test_one_session_alone_is_read_too(folder: Path) -> None:
    trace = read(folder / "b.json.gz")
    assert [r.session for r in trace.records()] == ["two"] * 3
    assert not any("common clock" in note for note in trace.report.notes)


def test_a_wrong_number_of_ids_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(session("one", request(0.0, 65, [1, 2]))))
    with pytest.raises(UsageError, match=r"a\.json: request:1: hash_ids: 2 ids, 65 tokens need 1"):
        list(read(tmp_path).records())


def test_a_folder_without_traces_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"a": 1}')
    with pytest.raises(UsageError, match="it holds neither"):
        read(tmp_path)


def test_the_digest_of_a_folder_changes_with_its_files_only(folder: Path) -> None:
    before = read(folder).sha256
    (folder / "LICENSE").write_text("y")
    assert read(folder).sha256 == before
    (folder / "a.json").write_text((folder / "a.json").read_text() + "\n")
    assert read(folder).sha256 != before


def test_the_real_sessions_give_their_known_counts() -> None:
    trace = open_trace(shared("traces/weka-claude-code"))
    summary = summarise(trace)
    records = list(trace.records())
    parents = [r for r in records if "/" not in r.session]
    assert len(parents) == 1863
    assert len({r.session for r in parents}) == 43
    assert len({r.session.partition("/")[0] for r in records if "/" in r.session}) == 4
    assert max(r.prompt_tokens for r in records) == 451_691
    assert summary.report["rows_read"] == 1863 + 128
    assert summary.prefix is not None
    assert 0.9 < summary.prefix["hit_tokens"] / summary.prefix["input_tokens"] < 1
