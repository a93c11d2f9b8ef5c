"""Hybrid models: their states and weights are the published ones, and their config.json files are read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backends.sim.specs.models import all_models, find_model
from backends.sim.specs.recurrent import RecurrentLayers
from backends.sim.specs.shape import ModelShape
from schedlab.errors import UsageError

HYBRID_MODELS = [model for model in all_models().values() if model.recurrent]

QWEN3_NEXT = {
    "model_type": "qwen3_next",
    "hidden_size": 2048,
    "intermediate_size": 5120,
    "num_hidden_layers": 48,
    "full_attention_interval": 4,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_value_head_dim": 128,
    "num_experts": 512,
    "num_experts_per_tok": 10,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "vocab_size": 151936,
    "max_position_embeddings": 262144,
    "tie_word_embeddings": False,
}
NEMOTRON_H = {
    "model_type": "nemotron_h",
    "hidden_size": 4096,
    "intermediate_size": 21504,
    "num_hidden_layers": 52,
    "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "attention_head_dim": 128,
    "mamba_num_heads": 128,
    "mamba_head_dim": 64,
    "ssm_state_size": 128,
    "n_groups": 8,
    "conv_kernel": 4,
    "chunk_size": 128,
    "vocab_size": 131072,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
}
GRANITE = {
    "model_type": "granitemoehybrid",
    "hidden_size": 1536,
    "intermediate_size": 512,
    "shared_intermediate_size": 1024,
    "num_hidden_layers": 40,
    "layer_types": ["attention" if layer % 10 == 5 else "mamba" for layer in range(40)],
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "mamba_n_heads": 48,
    "mamba_d_head": 64,
    "mamba_d_state": 128,
    "mamba_n_groups": 1,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_chunk_size": 256,
    "num_local_experts": 64,
    "num_experts_per_tok": 6,
    "vocab_size": 100352,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": True,
}


def read(tmp_path: Path, values: dict[str, Any]) -> ModelShape:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(values), "utf-8")
    return find_model(str(path))


@pytest.mark.parametrize(
    ("values", "bundled"),
    [(QWEN3_NEXT, "Qwen3-Next-80B-A3B"), (NEMOTRON_H, "Nemotron-H-8B"), (GRANITE, "Granite-4.0-H-Tiny")],
)
def test_a_config_gives_the_shape_of_the_bundled_hybrid(tmp_path: Path, values: dict[str, Any], bundled: str) -> None:
    shape, expected = read(tmp_path, values), find_model(bundled)
    assert replace(shape, name="", source="") == replace(expected, name="", source="", published_parameters=None)


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", "Qwen3-Next-80B-A3B"),
        ("nvidia/Nemotron-H-8B-Base-8K", "Nemotron-H-8B"),
        ("ibm-granite/granite-4.0-h-small", "Granite-4.0-H-Small"),
        ("granite-4.0-h-tiny-base", "Granite-4.0-H-Tiny"),
    ],
)
def test_a_hybrid_is_found_by_what_people_call_it(typed: str, name: str) -> None:
    assert find_model(typed).name == name


@pytest.mark.parametrize(
    ("model", "attention", "recurrent", "active"),
    [
        ("qwen3-next-80b-a3b", 12, 36, 3.9e9),
        ("nemotron-h-8b", 4, 24, 8.1e9),
        ("granite-4.0-h-small", 4, 36, 9e9),
    ],
)
def test_layers_and_active_parameters_are_the_published_ones(
    model: str, attention: int, recurrent: int, active: float
) -> None:
    shape = find_model(model)
    assert (shape.attention_layers, shape.recurrent_layers) == (attention, recurrent)
    assert shape.active_parameters == pytest.approx(active, rel=0.025)


def test_state_is_matrices_in_float32_and_the_convolutions_last_inputs() -> None:
    assert find_model("nemotron-h-8b").state_bytes() == 24 * (128 * 64 * 128 * 4 + (8192 + 2 * 8 * 128) * 3 * 2)
    assert find_model("qwen3-next-80b-a3b").state_bytes() == 36 * (32 * 128 * 128 * 4 + (4096 + 2 * 16 * 128) * 3 * 2)
    assert find_model("llama-3-8b").state_bytes() == 0


def test_a_config_may_say_that_matrices_are_kept_in_16_bit(tmp_path: Path) -> None:
    shape = read(tmp_path, {**NEMOTRON_H, "mamba_ssm_cache_dtype": "bfloat16"})
    assert shape.state_bytes() == 24 * (128 * 64 * 128 * 2 + 10240 * 3 * 2)


@pytest.mark.parametrize("model", HYBRID_MODELS, ids=lambda model: model.name)
def test_state_and_weights_are_shared_by_the_gpus_but_groups_are_replicated(model: ModelShape) -> None:
    for tp in model.tp_degrees():
        assert model.state_bytes(tp) * tp >= model.state_bytes(1)
        assert model.weight_bytes(tp) * tp >= model.weight_bytes(1)
        matrices = model.recurrent.matrix_bytes(tp) if model.recurrent else 0
        assert matrices * tp == (model.recurrent.matrix_bytes(1) if model.recurrent else -1)


def test_a_split_that_the_recurrent_heads_do_not_allow_is_refused() -> None:
    model = replace(find_model("nemotron-h-8b"), recurrent=RecurrentLayers("mamba2", 24, 6, 64, 128, 1, 4, 128))
    assert model.tp_degrees() == [1, 2]
    with pytest.raises(UsageError, match=r"--tp 4 does not fit .*6 recurrent heads.* split over 1, 2 GPUs"):
        model.weight_bytes(4)


def test_layer_types_go_before_the_interval(tmp_path: Path) -> None:
    kinds = ["linear_attention"] * 47 + ["full_attention"]
    assert read(tmp_path, {**QWEN3_NEXT, "layer_types": kinds}).attention_layers == 1
    without = {key: value for key, value in QWEN3_NEXT.items() if key != "full_attention_interval"}
    assert read(tmp_path, without).attention_layers == 12


def test_a_granite_without_experts_has_its_shared_mlp_and_may_have_no_recurrent_layer(tmp_path: Path) -> None:
    dense = read(tmp_path, {**GRANITE, "num_local_experts": 0, "shared_intermediate_size": 8192})
    assert (dense.moe_layers, dense.intermediate, dense.recurrent_layers) == (0, 8192, 36)
    plain = read(tmp_path, {**GRANITE, "layer_types": ["attention"] * 40})
    assert plain.recurrent is None and plain.state_bytes() == 0


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({**NEMOTRON_H, "hybrid_override_pattern": None}, "hybrid_override_pattern"),
        ({**NEMOTRON_H, "hybrid_override_pattern": "M*"}, "hybrid_override_pattern"),
        ({**NEMOTRON_H, "hybrid_override_pattern": "ME" * 26}, "hybrid_override_pattern"),
        ({**NEMOTRON_H, "hybrid_override_pattern": "M-" * 26}, "num_hidden_layers"),
        ({**NEMOTRON_H, "n_groups": 7}, "n_groups"),
        ({**NEMOTRON_H, "mamba_num_heads": 0}, "mamba_num_heads"),
        ({**NEMOTRON_H, "mamba_ssm_cache_dtype": "int8"}, "mamba_ssm_cache_dtype"),
        ({**QWEN3_NEXT, "linear_key_head_dim": None}, "linear_key_head_dim"),
        ({**QWEN3_NEXT, "layer_types": ["full_attention"]}, "layer_types"),
        ({**GRANITE, "layer_types": "mamba"}, "layer_types"),
        ({**GRANITE, "kv_lora_rank": 512}, "kv_lora_rank"),
        ({**GRANITE, "model_type": "some_new_hybrid"}, "mamba_d_state"),
        ({**QWEN3_NEXT, "model_type": "some_new_hybrid"}, "linear_num_value_heads"),
        ({**GRANITE, "model_type": "jamba"}, "model_type"),
    ],
)
def test_what_is_not_modelled_is_refused_by_field(tmp_path: Path, values: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=rf"config\.json: field '{named}'"):
        read(tmp_path, values)


def test_a_kind_of_layer_that_is_unknown_is_refused() -> None:
    with pytest.raises(UsageError, match="known: mamba2, gated_delta"):
        RecurrentLayers("rwkv", 1, 1, 1, 1, 1, 4, 64)
    with pytest.raises(UsageError, match="3 groups do not divide 4 recurrent heads"):
        RecurrentLayers("mamba2", 1, 4, 1, 1, 3, 4, 64)
