"""The Python API: frames and dictionaries, no word on the terminal, no file unless asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import schedlab
from schedlab.errors import UsageError
from tests.unit.replay_helpers import small_trace


def test_it_gives_frames_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    trace = small_trace(tmp_path / "t.csv", 12)
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    result = schedlab.replay(trace, model="llama-3-8b", hardware="h100")
    assert len(result.requests) == 12 and list(result.requests.columns[:2]) == ["request_id", "arrival_ns"]
    assert "running" in result.timeline.columns
    assert result.summary["requests"]["arrived"] == 12
    assert result.config["hardware"]["name"] == "H100"
    assert capfd.readouterr() == ("", "")
    assert list(Path().iterdir()) == []


def test_with_out_it_writes_what_the_command_writes_and_repeats_it(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "t.csv", 12)
    first = schedlab.replay(trace, out=tmp_path / "a", events=True, set={"max_num_seqs": 4}, slo={"ttft": "2s"})
    again = schedlab.replay(tmp_path / "a" / "config.json")
    assert first.folder == tmp_path / "a" and (tmp_path / "a" / "events.jsonl").exists()
    assert again.summary == first.summary and again.config == first.config and again.folder is None
    assert first.summary["goodput"]["targets"] == {"ttft": 2.0}


def test_values_may_be_written_as_on_the_command_line(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "t.csv", 3)
    by_text = schedlab.replay(str(trace), set="max_num_seqs=4,align_chunks=true", slo="ttft=2s,tpot=100ms")
    by_value = schedlab.replay(
        trace, set={"max_num_seqs": 4, "align_chunks": True}, slo={"ttft": "2s", "tpot": "100ms"}
    )
    assert by_text.config == by_value.config and by_text.summary == by_value.summary


def test_events_need_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="out="):
        schedlab.replay(small_trace(tmp_path / "t.csv", 3), events=True)


def test_two_runs_in_one_process_do_not_touch_one_another(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "t.csv")
    one = schedlab.replay(trace, num_blocks=60)
    schedlab.replay(trace, num_blocks=200, preset="met")
    assert schedlab.replay(trace, num_blocks=60).summary == one.summary


@pytest.mark.parametrize("module", ["pandas", "numpy", "simpy", "matplotlib", "typer", "rich"])
def test_importing_schedlab_loads_nothing_heavy(module: str) -> None:
    code = f"import schedlab, sys; sys.exit({module!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_help_loads_nothing_heavy() -> None:
    heavy = ("pandas", "numpy", "simpy", "matplotlib", "pyarrow")
    code = f"import schedlab.cli, sys; sys.exit(any(name in sys.modules for name in {heavy}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
