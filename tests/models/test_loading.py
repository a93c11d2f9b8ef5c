"""Wrong files are refused with what is wrong and where, and dummy weights are the same each time."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.torch_needed import torch  # isort: skip

from safetensors.torch import load_file, save_file

from backends.cuda.generation import end_tokens, sampling_defaults
from backends.cuda.loading import LoadFormat
from backends.cuda.sizing import plan_for
from schedlab.errors import UsageError
from schedlab.memory.reserve import DoesNotFit
from tests.models.lab import config, load
from tests.models.tiny import reference, saved

WEIGHTS = "model.safetensors"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return saved("llama3", tmp_path / "tiny")


def edit(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    """Change the tensors of a folder."""
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS)


def edit_config(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def refusal(folder: Path) -> str:
    with pytest.raises(UsageError) as caught:
        load(folder)
    return str(caught.value)


def test_a_missing_tensor_is_named(folder: Path) -> None:
    edit(folder, lambda tensors: tensors.pop("model.layers.1.mlp.up_proj.weight"))
    assert f"{folder}: lacks tensor 'model.layers.1.mlp.up_proj.weight'" in refusal(folder)


def test_a_tensor_too_many_is_named(folder: Path) -> None:
    edit(folder, lambda tensors: tensors.update({"model.layers.0.extra.weight": torch.ones(1)}))
    assert "'model.layers.0.extra.weight', which the llama model that its config describes does not use" in refusal(
        folder
    )


def test_a_tensor_of_another_shape_is_named_with_both(folder: Path) -> None:
    edit(folder, lambda tensors: tensors.update({"model.norm.weight": torch.ones(47)}))
    assert "'model.norm.weight' has shape [47]; by the configuration it has [48]" in refusal(folder)


def test_a_tensor_of_a_type_that_cannot_be_read_is_named(folder: Path) -> None:
    edit(folder, lambda tensors: tensors.update({"model.norm.weight": torch.ones(48, dtype=torch.int8)}))
    assert "tensor 'model.norm.weight' is I8; F32, F16, BF16 can be read" in refusal(folder)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.9])
def test_a_truncated_file_is_named(folder: Path, share: float) -> None:
    content = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(content[: int(len(content) * share)])
    assert f"{folder / WEIGHTS}: is missing, truncated or no safetensors file" in refusal(folder)


def test_pickled_weights_are_never_read(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    (folder / "pytorch_model.bin").write_bytes(b"x")
    assert "pickled weights only" in refusal(folder)


def test_an_index_leads_to_every_shard(tmp_path: Path) -> None:
    reference("llama3").save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    assert load(tmp_path).spec.layers == 3
    sorted(tmp_path.glob("*.safetensors"))[1].unlink()
    assert "-of-" in refusal(tmp_path) and "is missing" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "mamba"}, "'mamba' is not known; known are llama, mistral"),
        ({"hidden_size": None}, "field 'hidden_size'"),
        ({"num_key_value_heads": 4}, "4 does not divide num_attention_heads 6"),
        ({"rope_parameters": {"rope_type": "longrope", "rope_theta": 1e4}}, "rope_type 'longrope' is not known"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 0.5}}, "yarn needs rope_theta above 1, a factor of 1 or"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 1e9}}, "positions; at most 16,777,216"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 2, "beta_fast": 1}}, "beta_slow below beta_fast"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 2, "truncate": 1}}, "must be true or false, got 1"),
        ({"rope_parameters": None, "rope_theta": -1}, "field 'rope_theta': must be a positive number"),
        ({"hidden_act": "relu"}, "field 'hidden_act': is 'relu'"),
        ({"quantization_config": {"quant_method": "awq"}}, "quantised by the method 'awq' are not read"),
    ],
)
def test_a_config_that_cannot_be_served_names_its_field(folder: Path, changes: dict[str, object], message: str) -> None:
    edit_config(folder, **changes)
    assert message in refusal(folder)


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    assert "has no config.json" in refusal(tmp_path)
    assert "no folder of a Hugging Face model" in refusal(tmp_path / "nothing")


def test_a_length_beyond_the_model_is_refused(folder: Path) -> None:
    edit_config(folder, max_position_embeddings=100)
    assert "max_model_len is 256" in refusal(folder)


def test_dummy_weights_are_the_same_each_time_and_differ_by_seed(folder: Path) -> None:
    (folder / WEIGHTS).unlink()
    first, second, other = (load(folder, load_format=LoadFormat.DUMMY, seed=seed).weights for seed in (1, 1, 2))
    assert torch.equal(first.layers[2].qkv.panels, second.layers[2].qkv.panels)
    assert not torch.equal(first.layers[2].qkv.panels, other.layers[2].qkv.panels)
    assert not torch.equal(first.layers[2].qkv.panels, first.layers[1].qkv.panels)


def test_weights_are_kept_in_the_type_that_is_asked_for(folder: Path) -> None:
    assert load(folder, dtype="bfloat16").weights.layers[0].qkv.panels.dtype is torch.bfloat16
    with pytest.raises(UsageError, match="dtype 'int4' is not known"):
        load(folder, dtype="int4")


def test_end_tokens_come_from_the_generation_config_first(folder: Path) -> None:
    (folder / "generation_config.json").write_text('{"eos_token_id": [3, 4]}')
    assert end_tokens(folder) == (3, 4)
    (folder / "generation_config.json").unlink()
    assert end_tokens(folder) == (1,)


def test_sampling_is_what_the_generation_config_names(folder: Path) -> None:
    path = folder / "generation_config.json"
    given = {"temperature": 0.6, "top_k": 20, "top_p": None, "min_p": 0, "repetition_penalty": 1.1, "do_sample": True}
    path.write_text(json.dumps(given))
    assert sampling_defaults(folder) == {"temperature": 0.6, "top_k": 20, "min_p": 0, "repetition_penalty": 1.1}
    path.unlink()
    assert sampling_defaults(folder) == {}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ('{"temperature": -1}', "temperature is -1; give 0 or more, or serve without"),
        ('{"temperature": NaN}', "temperature is nan; give 0 or more"),
        ('{"temperature": "warm"}', "temperature is 'warm'; give a number, or serve without"),
        ('{"top_k": 2.5}', "top_k is 2.5; give a whole number"),
        ('{"top_p": 0}', "top_p is 0; give more than 0"),
        ('{"min_p": true}', "min_p is True; give a number"),
        ('{"repetition_penalty": 1e9}', "repetition_penalty is 1000000000.0; give above 0"),
    ],
)
def test_sampling_that_is_none_names_file_and_field(folder: Path, given: str, told: str) -> None:
    path = folder / "generation_config.json"
    path.write_text(given)
    with pytest.raises(UsageError) as refused:
        sampling_defaults(folder)
    assert str(refused.value).startswith(f"{path}: {told}") and "--generation-config none" in str(refused.value)


def test_memory_is_planned_for_weights_activations_and_kv(folder: Path) -> None:
    model = load(folder)
    plan = plan_for(model, config(), memory_bytes=4 << 20)
    assert plan.weights_bytes == model.weights.num_bytes
    assert plan.block_bytes == 8 * 2 * 3 * 2 * 16 * 4
    assert sum(plan.owners.values()) == 4 << 20
    with pytest.raises(DoesNotFit):
        plan_for(model, config(), memory_bytes=200_000)
