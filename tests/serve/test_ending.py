"""A server is told to end while a step runs that nothing can interrupt."""

from __future__ import annotations

import tests.serve.needed  # isort: skip

import json
from pathlib import Path

from tests.serve.lab import QUICK, RawClient, Server, wait_for
from tests.torch_needed import torch

assert tests.serve.needed and torch
STREAM = {"prompt": "x", "ignore_eos": True, "stream": True, "max_tokens": 50}
LONG_STEPS = ("--device", "sim", "--cost", "constant", "--cost-set", "step_ns=2500000000")
# Each return from torch to Python asks for the interpreter, which aborts the process once that is going down.
IN_TORCH = """
import time
import torch
from pathlib import Path
from schedlab.policies.fifo import Fifo

class InTorch(Fifo):
    name = "in_torch"

    def compose(self, view):
        if any(sequence.num_prompt_tokens == 7 for sequence in view.owners()):
            Path(__file__).with_name("begun").touch()
            end, square = time.monotonic() + 15, torch.zeros(64, 64)
            while time.monotonic() < end:
                square = square @ square
        return super().compose(view)
"""


def test_streams_end_at_once_and_the_server_after_the_step_with_its_recording_whole(tmp_path: Path) -> None:
    path = tmp_path / "got.jsonl"
    server = Server(*LONG_STEPS, "--drain", "0s", "--record", str(path))
    try:
        client = RawClient(server.port, "/v1/completions", STREAM)
        client.read_until(b"data: ")
        server.terminate()
        rest = client.read_until(b"[DONE]")
        assert b"the server is shutting down" in rest and b"[DONE]" in rest
        assert server.process.poll() is None
        assert server.wait() == 0
        client.close()
    finally:
        server.close()
    assert "waiting for the end of the step in flight" in server.errors()
    assert len(path.read_bytes().splitlines()) == 2  # whose traffic it is, and a request
    assert "end" in json.loads((tmp_path / "got.ticks.jsonl").read_bytes().splitlines()[-1])


def test_a_second_signal_within_a_step_ends_it_at_once_with_code_1_and_whole_lines(tmp_path: Path) -> None:
    (tmp_path / "in_torch.py").write_text(IN_TORCH)
    path = tmp_path / "got.jsonl"
    policy = f"{tmp_path / 'in_torch.py'}:InTorch"
    server = Server("--device", "sim", *QUICK, "--policy", policy, "--record", str(path))
    try:
        server.complete(max_tokens=2)
        client = RawClient(server.port, "/v1/completions", {**STREAM, "prompt": [5] * 7})
        wait_for((tmp_path / "begun").exists)
        server.terminate()
        wait_for(lambda: server.http.get("/health").status_code == 503)
        server.terminate()
        assert server.wait() == 1
        client.close()
    finally:
        server.close()
    assert "error: ended while the scheduler was at work" in server.errors()
    assert len(path.read_bytes().splitlines()) == 2  # whose traffic it is, and a request
    lines = (tmp_path / "got.ticks.jsonl").read_bytes().splitlines(keepends=True)
    assert all(line.endswith(b"\n") and json.loads(line) for line in lines)
