"""The command in a hostile place: odd terminals, full disks, pipes, folders in use, the end of time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.out_dir import OutDir
from experiments.result import ReplayResult
from reports.perfetto import PerfettoRecorder
from tests.unit.replay_helpers import HEADER, OUTPUTS, Ended, read, same_bytes, schedlab, small_trace, write_trace

MonkeyPatch = pytest.MonkeyPatch
Capture = pytest.CaptureFixture[str]
COMMAND = [sys.executable, "-c", "from schedlab.cli import main; main()"]
CONSTANT = ("--cost", "constant", "--cost-set")


def refused(ended: Ended, named: str) -> None:
    assert ended.code == 2
    assert ended.err.startswith("schedlab: error: ") and ended.err.count("\n") == 1
    assert named in ended.err


def test_names_that_are_too_long_are_refused(monkeypatch: MonkeyPatch, capsys: Capture, tmp_path: Path) -> None:
    trace, name = small_trace(tmp_path / "t.csv", 3), "x" * 300
    for words in ([name], [trace, "--model", name], [trace, "--out", tmp_path / name]):
        refused(schedlab(monkeypatch, capsys, "replay", *words), "File name too long")
    refused(schedlab(monkeypatch, capsys, "trace", "inspect", name), "File name too long")


def test_a_pipe_is_refused_and_not_waited_for(monkeypatch: MonkeyPatch, capsys: Capture, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    refused(schedlab(monkeypatch, capsys, "replay", tmp_path / "pipe"), "pipe a stream into - instead")


def test_control_characters_of_a_name_do_not_reach_the_terminal(monkeypatch: MonkeyPatch, capsys: Capture) -> None:
    ended = schedlab(monkeypatch, capsys, "replay", "\x1b[31mabsent\u202e")
    refused(ended, "[31mabsent")
    assert "\x1b" not in ended.err and "\u202e" not in ended.err


def test_a_name_that_is_not_utf8_is_refused(monkeypatch: MonkeyPatch, capsys: Capture, tmp_path: Path) -> None:
    trace = tmp_path / "\udcff.csv"
    small_trace(trace, 3)
    refused(schedlab(monkeypatch, capsys, "replay", trace, "--out", tmp_path / "out"), "which is not UTF-8")
    assert not (tmp_path / "out").exists()


def test_an_empty_policy_is_no_default(monkeypatch: MonkeyPatch, capsys: Capture, tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "t.csv", 3)
    refused(schedlab(monkeypatch, capsys, "replay", trace, "--policy", ""), "--policy is empty")


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--rate-scale", "1e-300"], "146 years"),
        (["--perfetto-window", "1e300-1e301"], "--perfetto-window"),
        ([*CONSTANT, "step_ns=9e17"], "the end of the clock"),
    ],
)
def test_the_end_of_the_clock_is_never_passed(
    monkeypatch: MonkeyPatch, capsys: Capture, tmp_path: Path, flags: list[str], named: str
) -> None:
    trace = small_trace(tmp_path / "t.csv", 6)
    refused(schedlab(monkeypatch, capsys, "replay", trace, *flags, "--out", tmp_path / "out"), named)
    assert not (tmp_path / "out").exists()


def test_think_times_up_to_the_end_of_the_clock_do_not_hang(
    monkeypatch: MonkeyPatch, capsys: Capture, tmp_path: Path
) -> None:
    header, think_ns = f"{HEADER},session,turn,think_ns", (1 << 62) - 1
    rows = [(0, 9, 2, "s", 0, -1), *((0, 9, 2, "s", turn, think_ns) for turn in (1, 2, 3))]
    trace = write_trace(tmp_path / "t.csv", rows, header)
    refused(schedlab(monkeypatch, capsys, "replay", trace, "--out", tmp_path / "out"), "the end of the clock")


def test_a_limit_beyond_any_trace_keeps_every_row(monkeypatch: MonkeyPatch, capsys: Capture, tmp_path: Path) -> None:
    trace, out = small_trace(tmp_path / "t.csv", 3), tmp_path / "out"
    assert schedlab(monkeypatch, capsys, "replay", trace, "--limit", 10**20, "--out", out).code == 0
    assert read(out, "summary.json")["requests"]["arrived"] == 3


@pytest.mark.parametrize("text", ['{"schedlab_replay": 1, "options": ' + "[" * 100_000, '{"schedlab_replay": 1}'])
def test_a_damaged_config_is_refused(monkeypatch: MonkeyPatch, capsys: Capture, tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text, "utf-8")
    refused(schedlab(monkeypatch, capsys, "replay", tmp_path / "config.json"), "config.json")


def test_a_rate_of_hundreds_of_digits_is_refused(monkeypatch: MonkeyPatch, capsys: Capture, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert schedlab(monkeypatch, capsys, "replay", small_trace(tmp_path / "t.csv", 3), "--out", out).code == 0
    config = read(out, "config.json")
    config["options"]["rate_scale"] = 10**400
    (tmp_path / "config.json").write_text(json.dumps(config), "utf-8")
    refused(schedlab(monkeypatch, capsys, "replay", tmp_path / "config.json"), "rate_scale is too large")


def test_two_runs_never_write_into_one_folder(monkeypatch: MonkeyPatch, capsys: Capture, tmp_path: Path) -> None:
    trace, out = small_trace(tmp_path / "t.csv", 3), tmp_path / "out"
    other = OutDir.open(out)
    other.events_draft.write_text("growing", "utf-8")
    refused(schedlab(monkeypatch, capsys, "replay", trace, "--out", out, "--events"), "another run is writing there")
    assert other.events_draft.read_text("utf-8") == "growing"
    other.close()
    assert schedlab(monkeypatch, capsys, "replay", trace, "--out", out, "--events").code == 0
    assert sorted(path.name for path in out.iterdir()) == sorted(OUTPUTS)


def test_what_a_killed_run_left_is_no_hindrance(monkeypatch: MonkeyPatch, capsys: Capture, tmp_path: Path) -> None:
    trace, killed, clean = small_trace(tmp_path / "t.csv", 6), tmp_path / "killed", tmp_path / "clean"
    killed.mkdir()
    (killed / ".events.jsonl.part").write_text("half a li", "utf-8")
    for out in (killed, clean):
        assert schedlab(monkeypatch, capsys, "replay", trace, "--out", out, "--events").code == 0
    assert same_bytes(killed, clean) == []
    assert sorted(path.name for path in killed.iterdir()) == sorted(OUTPUTS)
    (killed / ".events.jsonl.part").write_text("half a li", "utf-8")
    assert schedlab(monkeypatch, capsys, "replay", trace, "--out", killed).code == 0
    assert sorted(path.name for path in killed.iterdir()) == sorted(set(OUTPUTS) - {"events.jsonl"})


@pytest.mark.parametrize("last", ["report", "perfetto"])
def test_a_run_whose_files_cannot_all_be_written_leaves_the_earlier_ones_as_they_were(
    monkeypatch: MonkeyPatch, capsys: Capture, tmp_path: Path, last: str
) -> None:
    trace, out = small_trace(tmp_path / "t.csv", 6), tmp_path / "out"
    assert schedlab(monkeypatch, capsys, "replay", trace, "--out", out, "--events").code == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    owner = ReplayResult if last == "report" else PerfettoRecorder
    monkeypatch.setattr(owner, "report" if last == "report" else "write", full)
    refused(schedlab(monkeypatch, capsys, "replay", trace, "--out", out, "--limit", 2), "No space left on device")
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_a_folder_that_cannot_be_written_is_not_left_behind(
    monkeypatch: MonkeyPatch, capsys: Capture, tmp_path: Path
) -> None:
    def full(path: Path, content: bytes) -> int:
        raise OSError(28, "No space left on device")

    trace = small_trace(tmp_path / "t.csv", 3)
    monkeypatch.setattr(Path, "write_bytes", full)
    refused(schedlab(monkeypatch, capsys, "replay", trace, "--out", tmp_path / "out"), "No space left on device")
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_standard_output_is_said_in_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        command = [*COMMAND, "trace", "fetch", "--list"]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr == (
        "schedlab: error: standard output: No space left on device; give a place that can be read and written\n"
    )


def test_a_terminal_without_unicode_shows_everything_else(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "t.csv", 3)
    command = [*COMMAND, "replay", str(trace), "--out", str(tmp_path / "out")]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "20"}
    ended = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert b"results in " in ended.stdout and ended.stdout.isascii()


def test_memory_that_runs_out_is_said_in_one_line(monkeypatch: MonkeyPatch, capsys: Capture) -> None:
    def fail(*_: object, **__: object) -> bool:
        raise MemoryError

    monkeypatch.setattr("experiments.terminal.replay_on_terminal", fail)
    refused(schedlab(monkeypatch, capsys, "replay"), "out of memory")
