"""The time line: what belongs to which interval, idle gaps, and intervals that double."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from experiments.metrics.timeline import COLUMNS, Timeline
from experiments.metrics.usage import Usage
from schedlab.errors import UsageError
from schedlab.events import EventBus
from schedlab.pace import ns_to_quanta
from schedlab.sequence import Sequence
from tests.event_script import MS, EventScript


def started(interval_ns: int = 10 * MS, most_rows: int = 100_000) -> tuple[Timeline, EventScript]:
    usage = Usage()
    timeline = Timeline(usage, interval_ns, most_rows)
    bus = EventBus()
    bus.add(usage)
    bus.add(timeline)
    return timeline, EventScript(bus, block_size=4)


def enter(script: EventScript, prompt_tokens: int, prefill_ms: int) -> Sequence:
    sequence = script.arrive(prompt_tokens)
    script.admit(sequence)
    script.chunk(sequence, prompt_tokens, ns_to_quanta(prefill_ms * MS), with_decode=True)
    return sequence


def rows(timeline: Timeline) -> list[dict[str, Any]]:
    return timeline.to_frame().to_dict("records")


def test_a_token_on_a_boundary_counts_in_the_interval_that_it_ends() -> None:
    timeline, script = started()
    enter(script, 4, 10)
    script.decode(3, ns_to_quanta(5 * MS))
    assert [row["output_tokens"] for row in rows(timeline)] == [1, 2, 1]
    assert [row["prompt_tokens"] for row in rows(timeline)] == [4, 0, 0]
    assert [row["steps"] for row in rows(timeline)] == [1, 2, 1]


def test_a_token_one_quantum_after_a_boundary_counts_in_the_next_interval() -> None:
    timeline, script = started()
    script.wait(1)
    enter(script, 4, 10)
    assert [(row["prompt_tokens"], row["output_tokens"]) for row in rows(timeline)] == [(0, 0), (4, 1)]


def test_gauges_are_those_of_the_iteration_that_runs_up_to_the_boundary() -> None:
    timeline, script = started()
    enter(script, 4, 1)
    script.arrive(50)
    script.decode(8, ns_to_quanta(4 * MS))
    frame = timeline.to_frame()
    assert frame["t_ns"].tolist() == [10 * MS, 20 * MS, 30 * MS, 40 * MS]
    # The row has 4 tokens, so iterations 1-4 (until 17 ms) fill a second block and 5-8 a third.
    assert frame["kv_blocks"].tolist() == [2, 3, 3, 3]
    assert frame["running"].tolist() == [1, 1, 1, 0]
    assert frame["waiting"].tolist() == [1, 1, 1, 1]


def test_waiting_prefilling_and_parked_are_told_apart() -> None:
    timeline, script = started()
    first, second = enter(script, 4, 1), enter(script, 4, 1)
    script.preempt(first)
    script.admit(script.arrive(30))
    script.arrive(5)
    script.decode(3, ns_to_quanta(4 * MS))
    row = rows(timeline)[0]
    assert (row["running"], row["waiting"], row["parked"]) == (2, 1, 1)
    assert second in script.batch


def test_an_idle_gap_shows_nothing_running_and_nothing_held() -> None:
    timeline, script = started()
    script.finish(enter(script, 4, 15))
    script.wait(ns_to_quanta(40 * MS))
    enter(script, 4, 10)
    frame = timeline.to_frame()
    assert frame["running"].tolist() == [1, 0, 0, 0, 0, 1, 0]
    assert frame["kv_blocks"].tolist() == [1, 0, 0, 0, 0, 1, 1]
    assert frame["steps"].tolist() == [0, 1, 0, 0, 0, 0, 1]


def test_a_gap_with_live_requests_keeps_what_they_hold() -> None:
    timeline, script = started()
    enter(script, 9, 5)
    script.wait(ns_to_quanta(10 * MS))
    script.decode(1, ns_to_quanta(5 * MS))
    assert [(row["running"], row["kv_blocks"]) for row in rows(timeline)] == [(0, 3), (1, 3)]


def test_the_interval_doubles_when_rows_run_out_and_equals_one_chosen_so() -> None:
    timelines = []
    for interval_ns, most_rows in ((MS, 8), (8 * MS, 100)):
        timeline, script = started(interval_ns, most_rows)
        for prompt_tokens in range(1, 6):
            sequence = enter(script, prompt_tokens, 2)
            script.decode(prompt_tokens, ns_to_quanta(MS))
            script.wait(ns_to_quanta(3 * MS))
            script.finish(sequence)
        timelines.append(timeline)
    fine, coarse = timelines
    assert fine.interval_ns == 8 * MS
    pd.testing.assert_frame_equal(fine.to_frame(), coarse.to_frame())


def test_a_gap_of_decades_takes_no_more_rows_than_allowed() -> None:
    timeline, script = started(MS, 100)
    script.finish(enter(script, 4, 2))
    script.wait(ns_to_quanta(10**18))
    script.finish(enter(script, 5, 2))
    frame = timeline.to_frame()
    assert 50 <= len(frame) <= 100
    assert frame["prompt_tokens"].sum() == 9


def test_an_empty_run_has_columns_and_no_rows(tmp_path: Path) -> None:
    Timeline(Usage()).write_parquet(tmp_path / "timeline.parquet")
    frame = pd.read_parquet(tmp_path / "timeline.parquet")
    assert list(frame.columns) == list(COLUMNS)
    assert len(frame) == 0


@pytest.mark.parametrize(("interval_ns", "most_rows"), [(0, 10), (5, 7), (5, 0)])
def test_a_bad_interval_is_refused(interval_ns: int, most_rows: int) -> None:
    with pytest.raises(UsageError, match="timeline"):
        Timeline(Usage(), interval_ns, most_rows)
