"""Any Hugging Face config.json of a plain-KV decoder is a model; anything else is refused by file and field."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backends.sim.specs.models import find_model
from backends.sim.specs.shape import ModelShape
from schedlab.errors import UsageError

LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
QWEN3_MOE = {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "sliding_window": None,
    "use_sliding_window": False,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "tie_word_embeddings": False,
}
MIXTRAL = {
    **LLAMA,
    "model_type": "mixtral",
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "vocab_size": 32000,
    "max_position_embeddings": 32768,
    "sliding_window": None,
}
MISTRAL = {
    **LLAMA,
    "model_type": "mistral",
    "vocab_size": 32000,
    "max_position_embeddings": 32768,
    "sliding_window": 4096,
}
QWEN2 = {
    "model_type": "qwen2",
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "vocab_size": 151936,
    "max_position_embeddings": 32768,
    "max_window_layers": 21,
    "sliding_window": 32768,
    "use_sliding_window": False,
    "tie_word_embeddings": True,
}
GEMMA3 = {
    "model_type": "gemma3",
    "vision_config": {"hidden_size": 1152, "num_hidden_layers": 27},
    "text_config": {
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "num_hidden_layers": 34,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "vocab_size": 262208,
        "max_position_embeddings": 131072,
        "sliding_window": 1024,
    },
}


def read(tmp_path: Path, values: Any) -> ModelShape:
    folder = tmp_path / "some-model"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(values if isinstance(values, str) else json.dumps(values), "utf-8")
    return find_model(str(folder))


@pytest.mark.parametrize(
    ("values", "bundled"),
    [
        (LLAMA, "Llama-3-8B"),
        (QWEN3_MOE, "Qwen3-30B-A3B"),
        (MIXTRAL, "Mixtral-8x7B"),
        (MISTRAL, "Mistral-7B-v0.1"),
        (QWEN2, "Qwen2.5-0.5B"),
    ],
)
def test_a_config_gives_the_shape_of_the_bundled_model(tmp_path: Path, values: dict[str, Any], bundled: str) -> None:
    shape, expected = read(tmp_path, values), find_model(bundled)
    assert replace(shape, name="", source="") == replace(expected, name="", source="", published_parameters=None)
    assert shape.name == "some-model"


def test_a_path_of_the_file_itself_is_accepted(tmp_path: Path) -> None:
    read(tmp_path, LLAMA)
    assert find_model(str(tmp_path / "some-model" / "config.json")).layers == 32


def test_a_nested_text_model_with_mixed_windows_is_read(tmp_path: Path) -> None:
    shape = read(tmp_path, GEMMA3)
    assert (shape.window_tokens, shape.windowed_layers, shape.full_layers) == (1024, 29, 5)
    assert shape.tie_embeddings
    assert shape.parameters == pytest.approx(3.88e9, rel=0.02)


def test_layer_types_decide_which_layers_have_the_window(tmp_path: Path) -> None:
    kinds = ["sliding_attention", "full_attention"] * 16
    assert read(tmp_path, {**MISTRAL, "layer_types": kinds}).windowed_layers == 16
    assert read(tmp_path, {**MISTRAL, "layer_types": ["full_attention"] * 32}).window_tokens is None


def test_fields_that_default_may_be_absent(tmp_path: Path) -> None:
    bare = {key: value for key, value in LLAMA.items() if key != "num_key_value_heads"}
    shape = read(tmp_path, bare)
    assert (shape.kv_heads, shape.head_dim) == (32, 128)


def test_dense_layers_of_a_mixture_are_counted(tmp_path: Path) -> None:
    shape = read(tmp_path, {**QWEN3_MOE, "mlp_only_layers": [0, 1], "shared_expert_intermediate_size": 1024})
    assert (shape.dense_layers, shape.moe_layers, shape.shared_intermediate) == (2, 46, 1024)
    assert read(tmp_path, {**QWEN3_MOE, "decoder_sparse_step": 2}).dense_layers == 24


@pytest.mark.parametrize(
    "field", ["hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size"]
)
@pytest.mark.parametrize("value", [None, 0, -4, 1.5, "many", True, 10**12])
def test_a_missing_or_absurd_field_is_named_with_its_file(tmp_path: Path, field: str, value: Any) -> None:
    with pytest.raises(UsageError, match=rf"config\.json: field '{field}': (is missing|must be a whole number)"):
        read(tmp_path, {**LLAMA, field: value})


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({**LLAMA, "kv_lora_rank": 512}, "kv_lora_rank"),
        ({**LLAMA, "model_type": "mamba2"}, "model_type"),
        ({**LLAMA, "state_size": 16}, "state_size"),
        ({**LLAMA, "is_encoder_decoder": True}, "is_encoder_decoder"),
        ({**LLAMA, "quantization_config": {"quant_method": "awq"}}, "quantization_config"),
        ({**LLAMA, "num_key_value_heads": 5}, "num_key_value_heads"),
        ({**MISTRAL, "layer_types": ["full_attention"]}, "layer_types"),
        ({**MIXTRAL, "num_experts_per_tok": 9}, "num_experts_per_tok"),
        ({**QWEN3_MOE, "mlp_only_layers": 3}, "mlp_only_layers"),
    ],
)
def test_what_is_not_modelled_is_refused_by_field(tmp_path: Path, values: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=rf"config\.json: field '{named}'"):
        read(tmp_path, values)


@pytest.mark.parametrize(
    ("text", "problem"), [("{", "is not JSON"), ("[" * 10**5, "is not JSON"), ("[1]", "must hold a JSON object")]
)
def test_a_file_that_is_no_config_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        read(tmp_path, text)


def test_a_folder_or_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"config\.json: cannot be read"):
        find_model(str(tmp_path))
    with pytest.raises(UsageError, match=r"other\.json: cannot be read"):
        find_model(str(tmp_path / "other.json"))
