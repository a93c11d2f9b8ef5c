"""The benchmarks of the real device measure what they say, and refuse to where they cannot."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.torch_needed import torch  # isort: skip

from experiments.bench.real import gpu, host
from experiments.bench.real.beside import cases
from experiments.bench.real.side import Load, Serve
from experiments.bench.real.sides import ready
from tests.models.lab import load
from tests.models.tiny import saved


def test_loads_are_seeded_and_as_long_as_the_bar_says() -> None:
    stream, chats = cases(64, vocab=500)
    assert cases(64, vocab=500) == [stream, chats]
    assert (len(stream.load.prompts), stream.load.at_a_time, chats.load.at_a_time) == (1, 1, 16)
    prompts, outputs = [len(prompt) for prompt in chats.load.prompts], chats.load.outputs
    assert len(prompts) == len(outputs) == 64
    assert 16 <= min(*prompts, *outputs) < 40 < 230 < max(*prompts, *outputs) <= 256
    assert max(max(prompt) for prompt in chats.load.prompts) < 500


def test_a_load_is_served_to_its_end(tmp_path: Path) -> None:
    """It asserts itself that every output came."""
    ready(load(saved("llama3", tmp_path)), Load(((1, 2, 3), (4,), (5, 6)), (4, 1, 6), at_a_time=2))()


def test_a_side_ends_when_its_parent_is_killed() -> None:
    """In the midst of a load that would never end. Its output is open for as long as a process has it."""
    program = "from tests.models.test_device_benches import never; from experiments.bench.real import side;"
    program += "side.Side(never, 1).serve(side.Load((), (), 1))"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None and parent.stdout.readline() == b"begun\n"
        parent.kill()
        assert parent.communicate(timeout=60)[0] == b""


def never() -> Serve:
    """What serves a load without an end."""

    def serve(load: Load) -> None:
        print("begun", flush=True)
        while True:
            pass

    return serve


def test_host_cost_is_measured_on_full_decode_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_OUTPUTS", 40)
    monkeypatch.setattr(host, "_ROUND_STEPS", 10)
    assert 0 < host.step_ms(2) < 100


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU, so nothing is refused")
def test_without_a_gpu_its_benchmark_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu.main() == 2
    assert "finds no GPU" in capsys.readouterr().err
