"""Ctrl-C or SIGTERM in the middle of a run keeps what there is, and says so."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from experiments.result import ReplayResult
from experiments.watch import StopSignal
from tests.unit.replay_helpers import OUTPUTS, read, schedlab, small_trace

COMMAND = [sys.executable, "-c", "from schedlab.cli import main; main()", "replay", "--limit", "400000", "--events"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_keep_partial_results_and_mark_them(tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "out"
    with subprocess.Popen(
        [*COMMAND, "--out", str(out)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stderr is not None
        first_line = run.stderr.readline()
        assert first_line.startswith("replay: ") and "of 400,000 requests, simulated" in first_line
        run.send_signal(number)
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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_one_does_not_wait(number: signal.Signals, capfd: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(number)
    with StopSignal() as stop:
        signal.raise_signal(number)
        assert stop.is_set
        assert capfd.readouterr().err == "\nreplay: ending after this step; once more to end at once\n"
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert signal.getsignal(number) is before


def test_sigterm_outside_of_the_run_is_an_interrupt_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(ReplayResult, "report", lambda *_: signal.raise_signal(signal.SIGTERM))
    try:
        ended = schedlab(monkeypatch, capsys, "replay", small_trace(tmp_path / "t.csv", 3), "--out", tmp_path / "out")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended.code == 130 and ended.err.count("\n") == 1 and "interrupted" in ended.err
    assert not (tmp_path / "out").exists()
