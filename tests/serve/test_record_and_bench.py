"""Traffic as a trace, and a trace as traffic."""

from __future__ import annotations

import tests.serve.needed  # isort: skip

import io
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pytest

from experiments.serve.command import ServeOptions, _served
from schedlab import cli
from schedlab.errors import UsageError
from tests.serve.lab import END_S, QUICK, RawClient, Server, wait_for

assert tests.serve.needed
TRACE = """arrival_ns,prompt_tokens,output_tokens,hash_ids,hash_block_tokens
0,40,5,1 2,16
100000000,40,7,1 3,16
100000000,20,1,-,16
300000000,64,30,1 2 4 5,16
"""


class Told(NamedTuple):
    """How a command ended and what it said."""

    returncode: int
    stdout: str
    stderr: str


def schedlab(*arguments: str) -> Told:
    """The command, run in this process."""
    out, errors = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(errors):
        patch.setattr(sys, "argv", ["schedlab", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
    return Told(int(ended.value.code or 0), out.getvalue(), errors.getvalue())


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A trace sent by `bench` to a server that records, with one client that leaves early."""
    folder = tmp_path_factory.mktemp("record")
    (folder / "sent.csv").write_text(TRACE)
    server = Server("--device", "sim", *QUICK, "--set", "prefix_cache=true", "--record", str(folder / "got.jsonl"))
    try:
        out = folder / "bench"
        told = schedlab("bench", server.url, str(folder / "sent.csv"), "--out", str(out), "--slo", "ttft=5s")
        leaver = RawClient(
            server.port, "/v1/completions", {"prompt": "x", "stream": True, "max_tokens": 4000, "ignore_eos": True}
        )
        leaver.read_until(b"data: ")
        leaver.close()
        wait_for(lambda: server.metric("vllm:num_requests_running") == 0)
        server.terminate()
        code = server.wait()
    finally:
        server.close()
    yield {"folder": folder, "told": told, "out": out, "code": code}


def test_bench_prints_and_writes_what_replay_does(recorded: dict[str, Any]) -> None:
    told, out = recorded["told"], recorded["out"]
    assert told.returncode == 0, told.stderr
    assert "4 arrived, 4 finished (length)" in told.stdout and "TTFT" in told.stdout
    summary = json.loads((out / "summary.json").read_text())
    assert summary["requests"]["finished"]["length"] == 4
    assert (summary["prompt_tokens"], summary["output_tokens"]) == (164, 43)
    assert summary["goodput"]["share"] == 1
    requests = pd.read_parquet(out / "requests.parquet")
    assert list(requests["output_tokens"]) == [5, 7, 1, 30] and requests["first_token_ns"].notna().all()
    assert requests["cached_tokens"].iloc[3] == 32
    timeline = pd.read_parquet(out / "timeline.parquet")
    assert timeline["prompt_tokens"].sum() == 164 and timeline["running"].iloc[-1] == 0
    assert b"<html" in (out / "report.html").read_bytes()


def test_a_recording_replays_with_the_same_prompts_and_outputs(recorded: dict[str, Any]) -> None:
    assert recorded["code"] == 0
    trace, out = recorded["folder"] / "got.jsonl", recorded["folder"] / "replay"
    told = schedlab("replay", str(trace), "--set", "prefix_cache=true", "--out", str(out))
    assert told.returncode == 0, told.stderr
    requests = pd.read_parquet(out / "requests.parquet").sort_values("arrival_ns")
    assert list(requests["prompt_tokens"])[:4] == [40, 40, 20, 64]
    assert list(requests["output_tokens"])[:4] == [5, 7, 1, 30]
    assert requests["cached_tokens"].iloc[3] == 32
    assert len(requests) == 5 and 0 < requests["output_tokens"].iloc[4] < 4000


def test_a_recording_says_who_served_it(recorded: dict[str, Any]) -> None:
    trace = recorded["folder"] / "got.jsonl"
    told = schedlab("replay", str(trace), "--out", str(recorded["folder"] / "defaults"))
    note = next(line for line in told.stdout.splitlines() if line.startswith("note: recorded by a server of "))
    assert note.startswith("note: recorded by a server of Llama-3-8B (filler text; modelled H100, ")
    assert "--set prefix_cache=true" in note and "schedlab replay got.ticks.jsonl plays it exactly" in note


def test_the_run_itself_is_played_again_tick_by_tick(recorded: dict[str, Any]) -> None:
    ticks = recorded["folder"] / "got.ticks.jsonl"
    told = schedlab("replay", str(ticks))
    assert told.returncode == 0, told.stderr
    assert "5 requests ended" in told.stdout and "\nevery decision is as it was recorded" in told.stdout
    assert "2 cache hits" in told.stdout


@pytest.mark.parametrize("ends", ["killed", "full disk"])
def test_a_recording_is_whole_lines_however_it_ends(tmp_path: Path, ends: str) -> None:
    path = tmp_path / "got.jsonl"
    most_bytes = 1000 if ends == "full disk" else None
    server = Server("--device", "sim", *QUICK, "--record", str(path), max_file_bytes=most_bytes)
    try:
        for number in range(30):
            server.complete(prompt=[5] * (20 + number), max_tokens=2)
        if ends == "killed":
            wait_for(lambda: path.read_bytes().count(b"\n") == 31)
        else:
            wait_for(lambda: "--record" in server.errors())
            server.complete(max_tokens=1)
            server.terminate()
            assert server.wait() == 2
            wait_for(lambda: server.errors().count("No space left on device") == 3)
    finally:
        server.close()
    lines = path.read_bytes().splitlines(keepends=True)
    assert all(line.endswith(b"\n") for line in lines)
    lengths = [json.loads(line)["prompt_tokens"] for line in lines[1:]]
    assert lengths == list(range(20, 20 + len(lengths)))
    assert len(lengths) == 30 if ends == "killed" else 0 < len(lengths) < 30
    assert schedlab("replay", str(path), "--out", str(tmp_path / "out")).returncode == 0


def test_bench_says_what_failed(tmp_path: Path, server: Server) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("arrival_ns,prompt_tokens,output_tokens\n0,9000,1\n0,5,2\n")
    told = schedlab("bench", server.url, str(trace), "--max-concurrency", "1")
    assert "1 finished (length), 1 error" in told.stdout and "1 request failed: HTTP 400" in told.stdout


def test_bench_where_every_request_fails_is_an_error(tmp_path: Path, server: Server) -> None:
    out = tmp_path / "out"
    trace = "azure-conv-like"
    told = schedlab(
        "bench", server.url, trace, "--limit", "2", "--rate-scale", "1000", "--model", "zzz", "--out", str(out)
    )
    assert told.returncode == 2 and "every request failed" in told.stderr
    assert "HTTP 404" in told.stderr and "`zzz` does not exist" in told.stderr
    assert "2 requests failed: HTTP 404" in told.stdout and (out / "summary.json").exists()


def test_bench_says_of_a_modelled_trace_what_it_is(server: Server) -> None:
    told = schedlab("bench", server.url, "azure-conv-like", "--limit", "2", "--rate-scale", "1000")
    assert told.returncode == 0 and "note: modelled, not original" in told.stdout


def test_an_interrupted_bench_says_so_and_counts_those_in_flight(tmp_path: Path, server: Server) -> None:
    trace, out = tmp_path / "t.csv", tmp_path / "out"
    trace.write_text("arrival_ns,prompt_tokens,output_tokens\n0,5,2\n0,5,8000\n")
    before = server.metric("vllm:generation_tokens_total")
    with subprocess.Popen(
        [sys.executable, "-m", "schedlab", "bench", server.url, str(trace), "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as running:
        wait_for(lambda: server.metric("vllm:generation_tokens_total") > before + 50)
        running.send_signal(signal.SIGINT)
        said, _ = running.communicate(timeout=END_S)
    assert running.returncode == 130
    assert "2 arrived, 1 finished (length), 1 unfinished" in said and "note: partial" in said
    summary = json.loads((out / "summary.json").read_text())
    assert summary["partial"] and summary["output_tokens"] > 40 and summary["requests"]["unfinished"] == 1
    assert list(pd.read_parquet(out / "requests.parquet")["output_tokens"]) == [2]
    wait_for(lambda: server.metric("vllm:num_requests_running") == 0)


def test_a_port_in_use_is_said_before_anything_is_loaded(server: Server) -> None:
    told = schedlab("serve", "--port", str(server.port))
    assert told.returncode == 2 and f"--port {server.port}" in told.stderr and "in use" in told.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("bench", "http://127.0.0.1:1"), "does not name its models"),
        (("bench", "ftp://x"), "is no URL of a server"),
        (("bench", "t.csv", "http://127.0.0.1:1"), "name the server first, then the trace"),
        (("serve", "--device", "sim", "--gpu", "h100"), "write --hardware NAME"),
        (("serve", "llama-3-70b"), "no such folder or file; to have it on a modelled GPU, add --device sim"),
        (("serve", "org/Some-Model"), "hf download org/Some-Model --local-dir FOLDER, and give the folder\n"),
        (("serve", "--device", "gpu"), "--device 'gpu' is not known"),
        (("serve", "--device", "sim", "--dtype", "float32"), "--dtype has no effect here"),
        (("serve", "--device", "sim", "--generation-config", "none"), "--generation-config has no effect here"),
        (("serve", "--generation-config", "vllm"), "--generation-config 'vllm' is not known; choose auto or none"),
        (("serve", "--device", "cpu", "--hardware", "h100"), "--hardware has no effect here"),
        (("serve", "--device", "sim", "--set", "no=1"), "no"),
        (("serve", "--device", "sim", "--record", "x.csv"), "must end in .jsonl"),
        (("serve", "--device", "sim", "--host", "203.0.113.9"), "choose another address"),
        (("serve", "--device", "sim", "--host", "no.such.host.invalid"), "choose another address"),
        (("serve", "--device", "sim", "--port", "70000"), "--port is 70000"),
        (("serve", "--device", "sim", "--served_model_name", "m", "--max_queue", "-1"), "--max-queue is -1"),
        (("serve", "--max-num-seqs", "4"), "write --set max_num_seqs=VALUE"),
        (
            (
                "serve",
                "--gpu_memory_utilization=0.9",
            ),
            "write --memory-percent N",
        ),
        (("serve", "--speculative-config", "{}"), "No such option: --speculative-config"),
    ],
)
def test_bad_flags_are_one_line_and_code_2(arguments: tuple[str, ...], message: str) -> None:
    told = schedlab(*arguments)
    assert told.returncode == 2 and told.stdout == ""
    assert message in told.stderr and told.stderr.count("\n") == 1


def test_all_files_that_a_folder_lacks_are_named_at_once(tmp_path: Path) -> None:
    told = schedlab("serve", str(tmp_path))
    assert told.returncode == 2
    assert f"{tmp_path}: has no config.json, no tokenizer.json, no *.safetensors; the folder" in told.stderr
    (tmp_path / "config.json").write_text("{}")
    told = schedlab("serve", str(tmp_path), "--load-format", "dummy")
    assert f"{tmp_path}: has no tokenizer.json; the folder" in told.stderr


def test_a_model_that_cannot_be_loaded_is_one_line_where_nobody_watches(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF")
    told = schedlab("serve", str(broken), "--device", "cpu")
    assert told.returncode == 2
    assert told.stderr.startswith("schedlab: error: ") and told.stderr.count("\n") == 1


def test_loading_is_said_to_whoever_watches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with pytest.raises(UsageError, match=r"broken\.gguf"):
        _served({"model": str(broken)}, ServeOptions(device="cpu"))
    assert capsys.readouterr().err == f"schedlab: loading {broken}\n"
