"""`schedlab replay` from a tiny trace to its files, and the same bytes whenever it is repeated."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from tests.unit.replay_helpers import (
    OUTPUTS,
    REPEATABLE,
    read,
    same_bytes,
    schedlab,
    session_trace,
    small_trace,
    write_trace,
)

MonkeyPatch = pytest.MonkeyPatch
Capture = pytest.CaptureFixture[str]
# A pool in which the bursts of `small_trace` preempt one another.
TIGHT = ("--num-blocks", "60", "--set", "max_num_seqs=16", "--events")


@pytest.fixture(scope="module")
def tight_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of one run with preemptions."""
    folder = tmp_path_factory.mktemp("tight")
    small_trace(folder / "trace.csv")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["schedlab", "replay", str(folder / "trace.csv"), *TIGHT, "--out", f"{folder}/out"])
        from schedlab import cli

        with pytest.raises(SystemExit) as ended:
            cli.main()
    assert ended.value.code == 0
    return folder / "out"


def test_every_file_exists_and_they_agree(tight_run: Path) -> None:
    assert sorted(path.name for path in tight_run.iterdir()) == sorted(OUTPUTS)
    summary, requests = read(tight_run, "summary.json"), pd.read_parquet(tight_run / "requests.parquet")
    timeline = pd.read_parquet(tight_run / "timeline.parquet")
    events = [json.loads(line) for line in (tight_run / "events.jsonl").read_text("utf-8").splitlines()]
    assert summary["preemptions"] == requests["preemptions"].sum() > 0
    assert summary["preemptions"] == sum(event["ev"] == "preempted" for event in events)
    assert summary["requests"]["arrived"] == len(requests) == 60
    assert summary["output_tokens"] == requests["output_tokens"].sum() == timeline["output_tokens"].sum()
    assert list(requests["request_id"]) == list(range(60))
    assert sum(event["ev"] == "finished" for event in events) == 60
    assert summary["partial"] is False
    assert (tight_run / "report.html").read_text("utf-8").startswith("<!doctype html>")
    assert json.loads((tight_run / "trace.perfetto.json").read_text("utf-8"))["traceEvents"]


def test_its_config_says_everything_that_it_rests_on(tight_run: Path) -> None:
    config = read(tight_run, "config.json")
    assert config["options"]["num_blocks"] == config["scheduler"]["num_blocks"] == 60
    assert config["options"]["set"] == {"max_num_seqs": "16"} and config["scheduler"]["max_num_seqs"] == 16
    assert (config["preset"], config["policy"]["name"], config["cost"]["name"]) == ("vllm", "fifo", "roofline")
    assert config["max_tokens"] == {"rule": "auto", "tokens": 256}
    assert len(config["trace"]["sha256"]) == 64 and config["trace"]["rows"] == 60
    assert config["memory"]["num_blocks"] > 60 and "vLLM" in config["preset_source"]


def test_its_config_repeats_it_to_the_same_bytes(
    monkeypatch: MonkeyPatch, capsys: Capture, tmp_path: Path, tight_run: Path
) -> None:
    ended = schedlab(monkeypatch, capsys, "replay", tight_run / "config.json", "--events", "--out", tmp_path)
    assert ended.code == 0 and same_bytes(tight_run, tmp_path) == []


def test_stepping_gives_the_same_bytes_as_leaping_and_every_law_holds(
    monkeypatch: MonkeyPatch, capsys: Capture, tmp_path: Path, tight_run: Path
) -> None:
    trace = tight_run.parent / "trace.csv"
    ended = schedlab(monkeypatch, capsys, "replay", trace, *TIGHT, "--no-leap", "--check", "--out", tmp_path)
    assert ended.code == 0 and same_bytes(tight_run, tmp_path) == []


@pytest.mark.parametrize("hash_seed", ["0", "4711"])
def test_another_hash_seed_gives_the_same_bytes(tmp_path: Path, tight_run: Path, hash_seed: str) -> None:
    command = ["replay", str(tight_run.parent / "trace.csv"), *TIGHT, "--out", str(tmp_path / "out")]
    subprocess.run(
        [sys.executable, "-c", "from schedlab.cli import main; main()", *command],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        check=True,
        capture_output=True,
    )
    assert same_bytes(tight_run, tmp_path / "out") == []


def test_a_config_takes_no_other_choice(monkeypatch: MonkeyPatch, capsys: Capture, tight_run: Path) -> None:
    ended = schedlab(monkeypatch, capsys, "replay", tight_run / "config.json", "--rate-scale", "2")
    assert ended.code == 2 and "leave out --rate-scale" in ended.err


def test_a_changed_trace_is_not_repeated(
    monkeypatch: MonkeyPatch, capsys: Capture, tmp_path: Path, tight_run: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    small_trace(tmp_path / "trace.csv", 10)
    assert schedlab(monkeypatch, capsys, "replay", "trace.csv", "--out", "out").code == 0
    small_trace(tmp_path / "trace.csv", 11)
    ended = schedlab(monkeypatch, capsys, "replay", "out/config.json")
    assert ended.code == 2 and "the trace trace.csv has changed" in ended.err


def test_an_edited_fact_is_not_repeated(monkeypatch: MonkeyPatch, capsys: Capture, tmp_path: Path) -> None:
    assert (
        schedlab(monkeypatch, capsys, "replay", small_trace(tmp_path / "t.csv", 3), "--out", tmp_path / "a").code == 0
    )
    config = read(tmp_path / "a", "config.json")
    config["model"]["layers"] = 31
    (tmp_path / "edited.json").write_text(json.dumps(config), "utf-8")
    ended = schedlab(monkeypatch, capsys, "replay", tmp_path / "edited.json")
    assert ended.code == 2 and "model.layers was 31 and is now 32" in ended.err


def test_closed_loop_sessions_step_and_leap_alike(monkeypatch: MonkeyPatch, capsys: Capture, tmp_path: Path) -> None:
    trace = session_trace(tmp_path / "sessions.csv")
    for name, flags in (("leap", ()), ("step", ("--no-leap", "--check"))):
        ended = schedlab(monkeypatch, capsys, "replay", trace, "--events", *flags, "--out", tmp_path / name)
        assert ended.code == 0
    assert same_bytes(tmp_path / "leap", tmp_path / "step") == []


def test_a_fresh_folder_is_chosen_each_time(monkeypatch: MonkeyPatch, capsys: Capture, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    small_trace(tmp_path / "My Trace.csv", 3)
    first = schedlab(monkeypatch, capsys, "replay", "My Trace.csv")
    second = schedlab(monkeypatch, capsys, "replay", "My Trace.csv")
    assert "results in runs/my-trace.csv-llama-3-8b-h100-vllm\n" in first.out
    assert "results in runs/my-trace.csv-llama-3-8b-h100-vllm-2\n" in second.out
    same = schedlab(monkeypatch, capsys, "replay", "My Trace.csv", "--policy", "fifo")
    other = schedlab(monkeypatch, capsys, "replay", "My Trace.csv", "--policy", "slai")
    assert "results in runs/my-trace.csv-llama-3-8b-h100-vllm-3\n" in same.out
    assert "results in runs/my-trace.csv-llama-3-8b-h100-vllm-slai\n" in other.out


def test_a_second_run_replaces_its_own_files_only(monkeypatch: MonkeyPatch, capsys: Capture, tmp_path: Path) -> None:
    trace, out = small_trace(tmp_path / "t.csv", 3), tmp_path / "out"
    assert schedlab(monkeypatch, capsys, "replay", trace, "--events", "--out", out).code == 0
    (out / "mine.txt").write_text("kept", "utf-8")
    assert schedlab(monkeypatch, capsys, "replay", trace, "--limit", "2", "--out", out).code == 0
    assert (out / "mine.txt").read_text("utf-8") == "kept"
    assert read(out, "summary.json")["requests"]["arrived"] == 2
    assert not (out / "events.jsonl").exists(), "a decision log of another run would not belong to these results"


def test_a_modelled_trace_is_called_so_and_the_roofline_owns_up(
    monkeypatch: MonkeyPatch, capsys: Capture, tmp_path: Path
) -> None:
    ended = schedlab(monkeypatch, capsys, "replay", "--limit", "20", "--out", tmp_path / "out")
    assert ended.code == 0
    for text in ("modelled, not original", "calibrated on no measurement", "max_tokens is ", "vllm"):
        assert text in ended.out
    report = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "modelled, not original" in report and "calibrated on no measurement" in report


def test_a_changed_roofline_and_scaled_arrivals_are_said(
    monkeypatch: MonkeyPatch, capsys: Capture, tmp_path: Path
) -> None:
    flags = ["--limit", "20", "--cost-set", "host_ns=1000", "--rate-scale", "2", "--perfetto-window", "9000-9001"]
    ended = schedlab(monkeypatch, capsys, "replay", *flags, "--out", tmp_path / "out")
    for text in ("calibrated on no measurement", "this run sets host_ns", "2 times as dense", "perfetto.json is empty"):
        assert text in ended.out, text


def test_an_original_trace_is_called_so(monkeypatch: MonkeyPatch, capsys: Capture, tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.csv", [(0, 10, 5)])
    ended = schedlab(monkeypatch, capsys, "replay", trace, "--cost", "constant", "--out", tmp_path / "out")
    assert "256 sequences" in ended.out and "original trace" in ended.out and "modelled" not in ended.out
    assert "calibrated" not in ended.out and "set by hand" in ended.out
    assert set(REPEATABLE) - {path.name for path in (tmp_path / "out").iterdir()} == {"events.jsonl"}


def test_a_check_that_held_says_how_much_it_looked_at(
    monkeypatch: MonkeyPatch, capsys: Capture, tmp_path: Path
) -> None:
    trace = small_trace(tmp_path / "t.csv", 6)
    counts = {}
    for check in ("laws", "shadow"):
        ended = schedlab(monkeypatch, capsys, "replay", trace, f"--check={check}", "--out", tmp_path / check)
        run = read(tmp_path / check, "run.json")
        said = f"check: no law broke ({run['checked_laws']} laws, {run['checked_ticks']:,} ticks)"
        assert said in ended.out.splitlines()
        assert run["checked_ticks"] > 6
        counts[check] = run["checked_laws"]
    assert counts["shadow"] > counts["laws"] > 50
    ended = schedlab(monkeypatch, capsys, "replay", trace, "--out", tmp_path / "plain")
    assert "no law broke" not in ended.out and "checked_laws" not in read(tmp_path / "plain", "run.json")
    assert (tmp_path / "plain/summary.json").read_bytes() == (tmp_path / "laws/summary.json").read_bytes()


def test_a_results_folder_is_no_trace_and_its_config_is_named(
    monkeypatch: MonkeyPatch, capsys: Capture, tight_run: Path
) -> None:
    ended = schedlab(monkeypatch, capsys, "replay", tight_run)
    assert ended.code == 2 and f"{tight_run / 'config.json'} repeats it" in ended.err
