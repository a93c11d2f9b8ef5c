"""The event log: one line per event, a run as its iterations, one clear error when the disk refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from experiments.event_log import EventLog
from schedlab.errors import UsageError
from schedlab.events import EventBus
from schedlab.pace import ns_to_quanta
from schedlab.request import FinishReason
from tests.event_script import EventScript


def logged(path: Path) -> list[dict[str, Any]]:
    bus = EventBus()
    with EventLog(path) as log:
        bus.add(log)
        script = EventScript(bus, block_size=4)
        first = script.arrive(7)
        script.refuse(900)
        script.admit(first)
        script.chunk(first, 5, ns_to_quanta(50), with_decode=False)
        script.chunk(first, 5, ns_to_quanta(50), with_decode=False)
        script.decode(3, ns_to_quanta(10), ns_to_quanta(1))
        script.preempt(first)
        script.resume(first)
        first.error = 'device "lost"'
        script.finish(first, FinishReason.ERROR)
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_event_is_a_line_with_its_decision(tmp_path: Path) -> None:
    lines = logged(tmp_path / "events.jsonl")
    names = ["arrived", "refused", "admitted", "step", "step", "first_token", *["step"] * 3]
    assert [line["ev"] for line in lines] == [*names, "preempted", "resumed", "finished"]
    assert lines[0] == {"t": 0, "ev": "arrived", "id": 0, "prompt": 7, "max": 1 << 20}
    assert lines[1] == {"t": 0, "ev": "refused", "id": 1, "why": 'too "long"'}
    assert lines[2] == {"t": 0, "ev": "admitted", "id": 0, "cached": 0}
    assert lines[-3] == {"t": 133, "ev": "preempted", "id": 0, "freed": 3, "why": "decode"}
    assert lines[-1] == {"t": 133, "ev": "finished", "id": 0, "outputs": 4, "why": "error", "error": 'device "lost"'}


def test_a_chunk_says_what_it_computed_and_whether_it_sampled(tmp_path: Path) -> None:
    steps = [line for line in logged(tmp_path / "events.jsonl") if line["ev"] == "step"]
    assert [step["chunks"] for step in steps[:3]] == [[[0, 0, 5, False]], [[0, 5, 2, True]], []]
    assert steps[0] == {
        "t": 0, "end": 50, "ev": "step", "chunks": [[0, 0, 5, False]], "decode": 0, "ctx": 0,
        "blocks": [], "used": 2, "wait": 0, "prefill": 1, "parked": 0,
    }  # fmt: skip


def test_a_run_is_one_line_per_iteration_with_its_own_blocks(tmp_path: Path) -> None:
    run = [line for line in logged(tmp_path / "events.jsonl") if line["ev"] == "step" and line["decode"]]
    assert [(step["t"], step["end"], step["ctx"]) for step in run] == [(100, 110, 7), (110, 121, 8), (121, 133, 9)]
    assert [len(step["blocks"]) for step in run] == [0, 1, 0]
    assert [step["used"] for step in run] == [2, 3, 3]


def test_an_unwritable_path_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot write .*events\.jsonl: .*--out"):
        EventLog(tmp_path / "absent" / "events.jsonl")


def test_a_full_disk_is_one_clear_error() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    log = EventLog(full)
    bus = EventBus()
    bus.add(log)
    script = EventScript(bus)
    with pytest.raises(UsageError, match="cannot write /dev/full: No space left"):
        for _ in range(100_000):
            script.arrive(5)
    log.close()


def test_a_full_disk_shows_at_the_latest_when_closing() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    log = EventLog(Path("/dev/full"))
    bus = EventBus()
    bus.add(log)
    EventScript(bus).arrive(5)
    with pytest.raises(UsageError, match="No space left"):
        log.close()
