"""GGUF files of every family compute what the Hugging Face folder of the same weights computes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.torch_needed import torch  # isort: skip

from backends.cuda.gguf_config import config_of
from backends.cuda.model import Model
from tests.models.gguf_files import Kind, write_gguf
from tests.models.lab import load, request, run
from tests.models.tiny import CASES, VOCAB, reference_logits, saved

# What a GGUF file cannot say: windows of Mistral and Qwen2, dense layers among experts, unnormalised routing weights,
# other contexts of Llama 3.1's scaling than its own.
_LLAMA3 = {**CASES["llama3"][1]["rope_parameters"], "original_max_position_embeddings": 8192}
_CHANGES: dict[str, dict[str, Any]] = {
    "llama3": {"rope_parameters": _LLAMA3},
    "qwen3-moe": {"mlp_only_layers": [], "norm_topk_prob": True},
    "gemma2": {"query_pre_attn_scalar": 16},
    "gemma3": {"query_pre_attn_scalar": 16, "num_hidden_layers": 7, "layer_types": None},
}
# GGUF files here have no windows of one layer's own, and of the scalings of angles linear and Llama 3.1's.
FAMILIES = [case for case in CASES if not case.endswith("windows") and case not in ("yarn-rope", "dynamic-rope")]


def prompts() -> list[list[int]]:
    rng = random.Random(7)
    return [[rng.randrange(2, VOCAB) for _ in range(length)] for length in (70, 9)]


def folder_of(case: str, folder: Path) -> Path:
    return saved(case, folder, **_CHANGES.get(case, {}))


def assert_equals(theirs: Any, ours: Model) -> None:
    """Logits of three greedy tokens behind each prompt within 1e-4 of the largest."""
    given = prompts()
    result = run(ours, [request(number, prompt, 3) for number, prompt in enumerate(given)], max_num_batched_tokens=128)
    for number, prompt in enumerate(given):
        wanted = reference_logits(theirs, prompt + result.outputs[number])[len(prompt) - 1 : -1]
        found = torch.stack([result.device.logits[number, index] for index in range(3)])
        assert error(found, wanted) < 1e-4


def error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((found - wanted).abs().max() / wanted.abs().max())


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "schedlab" / "gguf"


@pytest.mark.parametrize("case", FAMILIES)
def test_its_logits_are_those_of_transformers(case: str, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    folder = folder_of(case, tmp_path / case)
    theirs = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
    assert_equals(theirs, load(write_gguf(folder, tmp_path / "tiny.gguf")))


@pytest.mark.parametrize("kind", [Kind.F16, Kind.BF16, Kind.Q8_0, Kind.Q4_1, Kind.Q5_0])
@pytest.mark.parametrize("case", ["llama3", "mixtral"])
def test_other_types_are_the_nearest_values(case: str, kind: Kind, tmp_path: Path) -> None:
    """Each matrix differs from the exact one by no more than the type's precision allows."""
    folder = folder_of(case, tmp_path / case)
    exact, stored = load(folder), load(write_gguf(folder, tmp_path / "tiny.gguf", kind))
    most = {Kind.F16: 1e-3, Kind.BF16: 1e-2, Kind.Q8_0: 1e-2, Kind.Q4_1: 0.15, Kind.Q5_0: 0.1}[kind]
    for layer, theirs in zip(stored.weights.layers, exact.weights.layers, strict=True):
        assert error(layer.qkv.panels, theirs.qkv.panels) < most
        assert error(layer.output.panels, theirs.output.panels) < most
    assert (stored.spec.dtype == "float32") == (kind not in (Kind.F16, Kind.BF16))


@pytest.mark.parametrize(
    ("architecture", "layers", "scalar"), [("gemma2", 46, 144), ("gemma3", 62, 144), ("gemma2", 42, 128)]
)
def test_gemma_files_of_27_billion_parameters_scale_by_the_width_per_head(
    architecture: str, layers: int, scalar: int
) -> None:
    """And others by the head's own width: the files do not say it, their number of layers does."""
    own = {"block_count": layers, "embedding_length": 4608, "attention.head_count": 32, "attention.key_length": 128}
    fields = {f"{architecture}.{name}": value for name, value in own.items()}
    found = config_of({"general.architecture": architecture, **fields}, frozenset(), "file")
    assert found["query_pre_attn_scalar"] == scalar
