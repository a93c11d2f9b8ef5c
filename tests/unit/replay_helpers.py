"""Tiny traces, and the command line run inside the test's own process."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from schedlab import cli

HEADER = "arrival_ns,prompt_tokens,output_tokens"
SECOND_NS = 1_000_000_000
REPEATABLE = ("config.json", "summary.json", "requests.parquet", "timeline.parquet", "events.jsonl")
OUTPUTS = (*REPEATABLE, "run.json", "report.html", "trace.perfetto.json")


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


def write_trace(path: Path, rows: Sequence[tuple[int | str, ...]], header: str = HEADER) -> Path:
    """A trace in the project's own CSV format."""
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n", "utf-8")
    return path


def small_trace(path: Path, count: int = 60) -> Path:
    """Bursts of three, with lengths that fill several blocks; enough to queue and to preempt in a small pool."""
    rows = [(row // 3 * 40_000_000, 40 + 37 * row % 300, 1 + 53 * row % 180) for row in range(count)]
    return write_trace(path, rows)


def session_trace(path: Path) -> Path:
    """Two sessions of three turns, and a request of its own, in closed loop."""
    header = "arrival_ns,prompt_tokens,output_tokens,session,turn,think_ns"
    rows = [
        (0, 50, 20, "a", 0, -1),
        (0, 90, 20, "a", 1, SECOND_NS),
        (0, 130, 20, "a", 2, 0),
        (5_000_000, 60, 10, "b", 0, -1),
        (0, 80, 10, "b", 1, 250_000_000),
        (0, 100, 10, "b", 2, 250_000_000),
        (7_000_000, 30, 5, "", 0, -1),
    ]
    return write_trace(path, rows, header)


def schedlab(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object) -> Ended:
    """Run the command as the console script would."""
    monkeypatch.setattr(sys, "argv", ["schedlab", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    out, err = capsys.readouterr()
    return Ended(int(ended.value.code or 0), out, err)


def read(folder: Path, name: str) -> Any:
    """A JSON file of a result."""
    return json.loads((folder / name).read_text("utf-8"))


def same_bytes(one: Path, other: Path) -> list[str]:
    """Names of repeatable files that differ between two results."""
    return [name for name in REPEATABLE if (one / name).read_bytes() != (other / name).read_bytes()]
