"""Decode steps that are recorded once and replayed give what the same steps give when they are launched one by one.

Without a GPU a recording is the list of torch operations that ran, with whatever the host put in as a number fixed, and
a replay runs these on the same memory: as a CUDA graph does.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.torch_needed import torch  # isort: skip

from torch.fx.experimental.proxy_tensor import make_fx

from backends.cuda.graphs import CudaRecorder, padded_sizes
from backends.cuda.operations import ReferenceOperations
from tests.models.lab import WatchedDevice, config, load, request, run
from tests.models.tiny import saved


class OperationRecorder:
    """Keeps the operations of each piece of work, and counts replays by the rows of what they give."""

    def __init__(self) -> None:
        self.replayed: list[int] = []

    def __call__(self, work: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
        with torch.inference_mode(False), torch.no_grad():
            operations = make_fx(work)()

        def replay() -> torch.Tensor:
            logits: torch.Tensor = operations()
            self.replayed.append(len(logits))
            return logits

        return replay


@pytest.mark.parametrize("case", ["llama3", "gemma2"])
def test_replayed_steps_give_what_launched_ones_give(case: str, tmp_path: Path) -> None:
    """Six rows that end one after the other, with windows and caps in one of the models."""
    model = load(saved(case, tmp_path))
    model.operations = ReferenceOperations()
    requests = [request(number, range(2 + number, 9 + 2 * number), 3 + 2 * number) for number in range(6)]
    recorder, settings = OperationRecorder(), config(max_num_seqs=6)
    recording = WatchedDevice(model, settings, 100, record=recorder)
    replayed = run(model, requests, device=recording, max_num_seqs=6)
    launched = run(model, requests, max_num_seqs=6)
    assert replayed.outputs == launched.outputs
    for key, wanted in launched.device.logits.items():
        torch.testing.assert_close(recording.logits[key], wanted, rtol=1e-4, atol=1e-4)
    decodes = [rows for chunks, rows in recording.steps if not chunks]
    assert {1, 2, 3, 5} <= set(decodes)
    assert recorder.replayed == [{1: 1, 2: 2, 3: 4, 4: 4, 5: 8, 6: 8}[rows] for rows in decodes]


def test_recorded_sizes_hold_every_batch() -> None:
    assert padded_sizes(1) == [1]
    assert padded_sizes(3) == [1, 2, 4]
    assert padded_sizes(17) == [1, 2, 4, 8, 16, 24]
    assert padded_sizes(256)[-1] == 256


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: CUDA graphs cannot be recorded without one")
def test_cuda_graphs_replay_what_they_recorded() -> None:
    memory: Any = torch.zeros(4, device="cuda")
    replay = CudaRecorder()(lambda: memory * 2)
    memory += 3
    assert replay().tolist() == [6.0] * 4
