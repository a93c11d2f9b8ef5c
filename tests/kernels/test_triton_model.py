"""A whole model on Triton's kernels gives the logits that it gives on their references."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torch_needed import _REASON, torch  # isort: skip

pytest.importorskip("triton", reason=_REASON)

from backends.cuda.model import Model
from backends.cuda.operations import ReferenceOperations
from backends.cuda.operations_triton import TritonOperations
from tests.models.lab import MAX_MODEL_LEN, load, request, run
from tests.models.tiny import saved

PROMPTS = [list(range(2, 7)), list(range(20, 34))]


@pytest.mark.parametrize("case", ["qwen3", "gemma2", "qwen3-moe"])
def test_both_kinds_of_kernels_agree(case: str, tmp_path: Path) -> None:
    """Chunks, mixed steps and decodes; norms of heads, windows and soft caps."""
    loaded = load(saved(case, tmp_path))
    results = []
    for operations in (ReferenceOperations(), TritonOperations()):
        model = Model(loaded.spec, loaded.weights, operations, MAX_MODEL_LEN)
        requests = [request(number, prompt, 2) for number, prompt in enumerate(PROMPTS)]
        results.append(run(model, requests, max_num_batched_tokens=8))
    reference, triton = results
    assert triton.outputs == reference.outputs
    for key, wanted in reference.device.logits.items():
        torch.testing.assert_close(triton.device.logits[key], wanted, rtol=1e-3, atol=1e-3)
