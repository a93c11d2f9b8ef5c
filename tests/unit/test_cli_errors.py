"""Bad input ends with one clear line on standard error, exit code 2, and nothing left behind."""

from __future__ import annotations

import io
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from schedlab.cli.command import _spelt_out
from schedlab.errors import InvariantViolation, Stalled
from tests.unit.replay_helpers import HEADER, Ended, schedlab, small_trace, write_trace

MonkeyPatch = pytest.MonkeyPatch
Capture = pytest.CaptureFixture[str]

BAD_FLAGS = [
    (["--nope"], "--nope"),
    (["--model", "no-such-model"], "no-such-model"),
    (["--hardware", "abacus"], "abacus"),
    (["--preset", "abacus"], "abacus"),
    (["--policy", "abacus"], "abacus"),
    (["--cost", "abacus"], "abacus"),
    (["--cost-set", "abacus=1"], "abacus"),
    (["--set", "abacus=1"], "--set abacus"),
    (["--set", "max_num_seqs"], "name=value"),
    (["--set", "max_num_seqs=many"], "max_num_seqs=many"),
    (["--set", "max_num_seqs=2", "--set", "max_num_seqs=3"], "max_num_seqs is given twice"),
    (["--set", "max_model_len=9000"], "max_model_len=9000"),
    (["--rate-scale", "0"], "--rate-scale is 0"),
    (["--rate-scale", "-2"], "--rate-scale is -2"),
    (["--rate-scale", "nan"], "--rate-scale is nan"),
    (["--limit", "0"], "--limit is 0"),
    (["--tp", "0"], "--tp is 0"),
    (["--tp", "3"], "--tp 3"),
    (["--seed", "-1"], "--seed is -1"),
    (["--seed", "1"], "--seed has no effect"),
    (["--max-tokens", "0"], "--max-tokens is '0'"),
    (["--max-tokens", "some"], "--max-tokens is 'some'"),
    (["--memory-percent", "101"], "--memory-percent is 101"),
    (["--memory-percent", "5"], "does not fit"),
    (["--model", "llama-3-70b", "--hardware", "l4"], "Llama-3-70B does not fit on 1 x L4"),
    (["--num-blocks", "99999999"], "--num-blocks is 99999999"),
    (["--num-blocks", "5", "--memory-percent", "50"], "give one of them"),
    (["--slo", "ttft=2"], "'2' is no duration"),
    (["--slo", "ttft=2h"], "'2h' is no duration"),
    (["--slo", "ttft=-2s"], "'-2s' is no duration"),
    (["--slo", "ttft=0s"], "above 0"),
    (["--slo", "speed=2s"], "'speed' is no target"),
    (["--slo", "speed=1"], "'speed' is no target"),
    (["--slo", "ttft=1,speed=1"], "'speed' is no target"),
    (["--slo", "ttft=1s,ttft=2s"], "ttft is given twice"),
    (["--slo", ""], "--slo is empty"),
    (["--slo="], "--slo is empty"),
    (["--out", ""], "--out is empty"),
    ([""], "an argument is empty"),
    (["--set", "evict=true"], "policy priority does: --policy priority"),
    (["--perfetto-window", "9-3"], "--perfetto-window"),
]


@pytest.mark.parametrize(("flags", "named"), BAD_FLAGS, ids=[" ".join(flags) for flags, _ in BAD_FLAGS])
def test_a_bad_flag_is_named_in_one_line(
    monkeypatch: MonkeyPatch, capsys: Capture, tmp_path: Path, flags: list[str], named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    trace = small_trace(tmp_path / "trace.csv", 3)
    ended = schedlab(monkeypatch, capsys, "replay", trace, *flags)
    assert ended.code == 2
    assert ended.err.startswith("schedlab: error: ") and ended.err.count("\n") == 1
    assert named in ended.err
    assert ended.out == "" and not (tmp_path / "runs").exists()


BAD_TRACES = [
    ("", "trace.csv"),
    ("some,columns\n1,2\n", "not a known trace format"),
    (f"{HEADER}\n0,10,5\n1,-10,5\n", "trace.csv:3: prompt_tokens"),
    (f"{HEADER}\n0,10,-5\n", "trace.csv:2: output_tokens"),
    (f"{HEADER}\n-5,10,5\n", "trace.csv:2: arrival_ns"),
    (f"{HEADER}\n0,0,5\n", "trace.csv:2: prompt_tokens"),
    (f"{HEADER}\n0,ten,5\n", "trace.csv:2: prompt_tokens"),
    (f"{HEADER}\n", "no request to replay"),
]


@pytest.mark.parametrize(("text", "named"), BAD_TRACES, ids=[named for _, named in BAD_TRACES])
def test_a_bad_trace_is_named_with_its_line(
    monkeypatch: MonkeyPatch, capsys: Capture, tmp_path: Path, text: str, named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trace.csv").write_text(text, "utf-8")
    ended = schedlab(monkeypatch, capsys, "replay", "trace.csv")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert named in ended.err
    assert not (tmp_path / "runs").exists()


def test_a_missing_trace_is_named_and_the_shipped_models_are_listed(
    monkeypatch: MonkeyPatch, capsys: Capture, tmp_path: Path
) -> None:
    ended = schedlab(monkeypatch, capsys, "replay", tmp_path / "absent.csv")
    assert ended.code == 2
    assert "absent.csv: no such trace" in ended.err and "azure-conv-like" in ended.err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"schedlab_incident":1,"policy":"fifo"}', "a server's run tick by tick: schedlab replay other.json plays it"),
        (
            '{\n  "schedlab_check": 1,\n  "actions": [{"arrival_ns": 0, "prompt_tokens": 1, "output_tokens": 1}]\n}',
            "an example that broke a law: schedlab replay other.json --check",
        ),
        ('{\n  "schedlab_replay": 1\n}', "the config.json of a replay: schedlab replay other.json repeats it"),
    ],
)
def test_another_file_of_this_project_is_told_as_what_it_is(
    monkeypatch: MonkeyPatch, capsys: Capture, tmp_path: Path, text: str, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.json").write_text(text, "utf-8")
    ended = schedlab(monkeypatch, capsys, "trace", "inspect", "other.json")
    assert ended.code == 2 and f"other.json: is no trace but {told}" in ended.err


def test_a_run_of_standard_input_is_repeated_from_the_same_pipe(
    monkeypatch: MonkeyPatch, capsys: Capture, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    data = small_trace(tmp_path / "t.csv", 3).read_bytes()

    def piped(content: bytes, trace: str, out: str) -> Ended:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        return schedlab(monkeypatch, capsys, "replay", trace, "--out", out)

    assert piped(data, "-", "a").code == 0 and piped(data, "a/config.json", "b").code == 0
    for other in (b"", data + b"9,9,9\n"):
        ended = piped(other, "a/config.json", "c")
        assert ended.code == 2 and "this run read standard input; pipe the same trace in (" in ended.err


def test_an_out_below_a_file_is_refused_before_the_run(
    monkeypatch: MonkeyPatch, capsys: Capture, tmp_path: Path
) -> None:
    trace = small_trace(tmp_path / "trace.csv", 3)
    ended = schedlab(monkeypatch, capsys, "replay", trace, "--out", trace / "below")
    assert ended.code == 2
    assert f"--out {trace / 'below'}: cannot be made" in ended.err


def test_files_that_no_replay_wrote_are_never_replaced(
    monkeypatch: MonkeyPatch, capsys: Capture, tmp_path: Path
) -> None:
    trace = small_trace(tmp_path / "trace.csv", 3)
    out = tmp_path / "model"
    out.mkdir()
    (out / "config.json").write_text('{"model_type": "llama"}', "utf-8")
    ended = schedlab(monkeypatch, capsys, "replay", trace, "--out", out)
    assert ended.code == 2 and "config.json there was written by no replay" in ended.err
    assert (out / "config.json").read_text("utf-8") == '{"model_type": "llama"}'
    assert [path.name for path in out.iterdir()] == ["config.json"]


def test_a_failing_row_in_the_middle_leaves_no_folder_behind(
    monkeypatch: MonkeyPatch, capsys: Capture, tmp_path: Path
) -> None:
    trace = write_trace(tmp_path / "trace.csv", [(0, 10, 5), (1, 10)])
    out = tmp_path / "out"
    ended = schedlab(monkeypatch, capsys, "replay", trace, "--out", out, "--events")
    assert ended.code == 2 and "trace.csv:3" in ended.err
    assert not out.exists()


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (Stalled("request 7 (pending) cannot go on"), 2, "request 7"),
        (InvariantViolation("blocks_are_conserved: 5 of 6"), 1, "a law of the run does not hold: blocks_are_conserved"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_errors_of_a_run_have_their_exit_codes(
    monkeypatch: MonkeyPatch, capsys: Capture, error: BaseException, code: int, text: str
) -> None:
    def fail(*_: object, **__: object) -> bool:
        raise error

    monkeypatch.setattr("experiments.terminal.replay_on_terminal", fail)
    ended = schedlab(monkeypatch, capsys, "replay")
    assert ended.code == code
    assert text in ended.err and "Traceback" not in ended.err


def test_help_needs_no_command(monkeypatch: MonkeyPatch, capsys: Capture) -> None:
    ended = schedlab(monkeypatch, capsys)
    assert ended.code == 0 and "replay" in ended.out and "trace" in ended.out


def test_the_version_is_the_installed_one(monkeypatch: MonkeyPatch, capsys: Capture) -> None:
    ended = schedlab(monkeypatch, capsys, "--version")
    assert (ended.code, ended.out, ended.err) == (0, f"schedlab {version('schedlab')}\n", "")


@pytest.mark.parametrize(
    ("typed", "spelt"),
    [
        (["--check"], ["--check=laws"]),
        (["--check", "t.csv"], ["--check=laws", "t.csv"]),
        (["--check", "shadow", "t.csv"], ["--check=shadow", "t.csv"]),
        (["--check=laws", "shadow"], ["--check=laws", "shadow"]),
        (["t.csv", "--check", "laws"], ["t.csv", "--check=laws"]),
    ],
)
def test_a_check_may_be_named_or_not(typed: list[str], spelt: list[str]) -> None:
    assert _spelt_out(typed) == spelt


def test_the_package_is_the_command() -> None:
    ended = subprocess.run([sys.executable, "-m", "schedlab", "--help"], capture_output=True, text=True, check=False)
    assert ended.returncode == 0 and "replay" in ended.stdout


@pytest.mark.parametrize("command", ["replay", "memory", "serve"])
def test_help_says_how_to_learn_the_names_of_models_and_gpus(
    monkeypatch: MonkeyPatch, capsys: Capture, command: str
) -> None:
    text = " ".join(schedlab(monkeypatch, capsys, command, "--help").out.replace("│", " ").split())
    assert ("list: the known ones) or" in text) and "(--hardware list: the known ones)" in text
    for flag, names in (("--model", ("Llama-2-7B", "Granite-4.0-H-Tiny")), ("--hardware", ("A10G", "RTX PRO 6000"))):
        told = schedlab(monkeypatch, capsys, "memory", flag, "list")
        assert told.code == 2 and all(name in told.err for name in names)


@pytest.mark.parametrize("command", [["replay"], ["memory"], ["trace", "inspect"], ["trace", "convert"]])
def test_a_flag_without_a_value_is_shown_without_one(
    monkeypatch: MonkeyPatch, capsys: Capture, command: list[str]
) -> None:
    ended = schedlab(monkeypatch, capsys, *command, "--help")
    # --help itself is typer's.
    options = [line for line in ended.out.splitlines() if "--" in line and "--help" not in line]
    assert ended.code == 0 and options
    assert not [line for line in options if "bool" in line.lower()]
