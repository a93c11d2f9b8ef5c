"""Notes that keep a reader from a wrong conclusion."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import schedlab
from reports.table import print_summary
from tests.unit.replay_helpers import HEADER, small_trace, write_trace

SAME = "all rows have the same priority, so that policy priority serves them as fifo does"
TIGHT: dict[str, Any] = {"num_blocks": 60, "check": True}


@pytest.mark.parametrize("own", [{}, {"aging_per_s": 0.5}, {"evict": True}])
def test_priority_without_priorities_says_that_it_is_fifo_and_is(tmp_path: Path, own: dict[str, Any]) -> None:
    trace = small_trace(tmp_path / "t.csv")
    fifo = schedlab.replay(trace, policy="fifo", set={"max_num_seqs": 16}, **TIGHT)
    priority = schedlab.replay(trace, policy="priority", set={"max_num_seqs": 16, **own}, **TIGHT)
    assert fifo.summary["preemptions"] > 0
    assert priority.requests.equals(fifo.requests)
    assert SAME in priority.notes and SAME not in fifo.notes


@pytest.mark.parametrize(("priorities", "noted"), [((3, 3, 3), True), ((0, 0, 1), False), ((1, 0, 0), False)])
def test_the_note_on_equal_priorities_looks_at_every_row(
    tmp_path: Path, priorities: tuple[int, ...], noted: bool
) -> None:
    rows = [(row, 10, 2, priority) for row, priority in enumerate(priorities)]
    trace = write_trace(tmp_path / "t.csv", rows, f"{HEADER},priority")
    assert (SAME in schedlab.replay(trace, policy="priority").notes) == noted


def test_unsent_turns_are_said_to_be_no_part_of_goodput(tmp_path: Path) -> None:
    rows = [(0, 50, 5, "a", 0, -1), (0, 9000, 5, "a", 1, 5), (0, 60, 5, "a", 2, 5), (0, 60, 5, "a", 3, 5)]
    trace = write_trace(tmp_path / "t.csv", rows, f"{HEADER},session,turn,think_ns")
    with_slo, without = (schedlab.replay(trace, slo=slo) for slo in ({"ttft": "5s"}, None))
    unsent = "2 turns were never sent: a turn before in the same session got no answer"
    assert unsent in without.notes
    assert f"{unsent}; the shares of goodput are of the requests sent, without them" in with_slo.notes
    assert with_slo.summary["goodput"]["share"] == 0.5, "one of the two that were sent"


@pytest.mark.parametrize(("refused", "said"), [(1, False), (2, True)])
def test_refusals_that_bear_on_the_figures_come_first_and_what_every_run_says_last(
    tmp_path: Path, refused: int, said: bool
) -> None:
    trace = write_trace(tmp_path / "t.csv", [(row, 9000 if row < refused else 10, 1) for row in range(100)])
    notes = schedlab.replay(trace).notes
    assert (notes[0] == f"{refused} of 100 requests were refused; latencies are of the others") == said
    assert "calibrated on no measurement" in notes[-1]
    assert f"{refused} refused; the first is request 0: " in notes[-2]


def test_a_run_that_served_nobody_says_so_first(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.csv", [(0, 400, 5), (1, 500, 5)])
    console = Console(record=True, width=200, file=StringIO())
    result = schedlab.replay(trace, num_blocks=1)
    print_summary(console, result.summary, result.config, result.run, result.notes)
    warning = "no request was served: 2 arrived, 2 refused"
    assert result.notes[0] == warning
    assert console.export_text().splitlines()[2].strip() == warning, "above the figures"
    served = schedlab.replay(trace, num_blocks=40)
    assert not any("no request was served" in note for note in served.notes)
