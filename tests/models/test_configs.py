"""A `config.json` means what transformers takes it for: fields left out, shards, windows, nested text models."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from tests.torch_needed import torch  # isort: skip

from backends.cuda.families import read_spec
from backends.cuda.rope import Linear, RopeSpec
from backends.cuda.spec import ModelSpec
from schedlab.errors import UsageError
from tests.models.lab import load
from tests.models.test_gguf import assert_equals
from tests.models.tiny import CASES, reference, transformers

# Every published file has these.
_SIZES = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "model_type")
_EXPERTS = ("num_experts", "num_local_experts", "num_experts_per_tok", "moe_intermediate_size")


def spec_of(values: dict[str, Any], folder: Path) -> ModelSpec:
    path = folder / "config.json"
    path.write_text(json.dumps(values))
    return dataclasses.replace(read_spec(path), name="")


@pytest.mark.parametrize("class_name", sorted({class_name for class_name, _ in CASES.values()}))
def test_what_a_file_leaves_out_is_what_transformers_takes(class_name: str, tmp_path: Path) -> None:
    written = json.loads(getattr(transformers, class_name)().to_json_string(use_diff=False))
    short = {name: written[name] for name in (*_SIZES, *_EXPERTS) if name in written}
    assert spec_of(short, tmp_path) == spec_of(written, tmp_path)


def test_a_null_is_not_left_out(tmp_path: Path) -> None:
    written = json.loads(transformers.Gemma2Config().to_json_string(use_diff=False))
    spec = spec_of({**written, "attn_logit_softcapping": None, "sliding_window": None}, tmp_path)
    assert spec.attention_soft_cap is None and set(spec.windows) == {None}


def test_a_text_model_within_a_multi_modal_one(tmp_path: Path) -> None:
    """As Gemma 3 4B is published: most of the text model's fields are left out."""
    text = {
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "model_type": "gemma3_text",
        "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024,
    }
    spec = spec_of({"model_type": "gemma3", "text_config": text, "vision_config": {"hidden_size": 1152}}, tmp_path)
    assert (spec.family, spec.layers, spec.hidden, spec.heads) == ("gemma3_text", 34, 2560, 8)
    assert (spec.kv_heads, spec.head_dim, spec.vocab, spec.tie_embeddings) == (4, 256, 262_208, True)
    assert spec.windows == tuple(None if layer % 6 == 5 else 1024 for layer in range(34))
    assert spec.ropes[0] == RopeSpec(10_000.0) and spec.ropes[5] == RopeSpec(1e6, Linear(8.0))


@pytest.mark.parametrize("case", ["qwen2-windows", "gemma3", "mixtral"])
def test_shards_and_another_type_of_weights(case: str, tmp_path: Path) -> None:
    """bfloat16 weights over several files, computed in float32."""
    reference(case).to(torch.bfloat16).save_pretrained(tmp_path, max_shard_size="30KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    options = {"dtype": torch.float32, "attn_implementation": "eager"}
    assert_equals(transformers.AutoModelForCausalLM.from_pretrained(tmp_path, **options).eval(), load(tmp_path))


@pytest.mark.parametrize("kind", ["longrope", "other"])
def test_a_scaling_of_angles_that_is_not_computed_is_named(kind: str, tmp_path: Path) -> None:
    written = json.loads(transformers.LlamaConfig().to_json_string(use_diff=False))
    with pytest.raises(UsageError, match=f"rope_type '{kind}' is not known; known are default, linear, llama3"):
        spec_of({**written, "rope_parameters": None, "rope_scaling": {"type": kind, "factor": 2.0}}, tmp_path)
