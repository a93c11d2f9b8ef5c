"""Ctrl-C in the middle of a run keeps what there is, and says so."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from experiments.watch import StopSignal
from tests.unit.replay_helpers import OUTPUTS, read

COMMAND = [sys.executable, "-c", "from schedlab.cli import main; main()", "replay", "--limit", "400000", "--events"]


def test_ctrl_c_keeps_partial_results_and_marks_them(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with subprocess.Popen(
        [*COMMAND, "--out", str(out)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stderr is not None
        first_line = run.stderr.readline()
        assert first_line.startswith("replay: ") and "of 400,000 requests, simulated" in first_line
        run.send_signal(signal.SIGINT)
        printed, errors = run.communicate(timeout=60)
    assert run.returncode == 130, errors
    assert "Traceback" not in errors
    assert "partial: the run was interrupted" in printed
    assert sorted(path.name for path in out.iterdir()) == sorted(OUTPUTS)
    summary, requests = read(out, "summary.json"), pd.read_parquet(out / "requests.parquet")
    assert summary["partial"] is True
    assert 0 < len(requests) < 400_000
    assert summary["requests"]["arrived"] == len(requests) + summary["requests"]["unfinished"]
    assert "partial: the run was interrupted" in (out / "report.html").read_text("utf-8")


def test_a_second_ctrl_c_does_not_wait() -> None:
    with StopSignal() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
