"""Hardware and models are found by the names people type, and each bundled number agrees with its public figure."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from backends.sim.specs.hardware import HardwareSpec, all_hardware, find_hardware
from backends.sim.specs.models import ModelShape, all_models, find_model
from schedlab.errors import UsageError
from tests.shared_data import shared

EVERY_MODEL = list(all_models().values())


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("llama-3-8b", "Llama-3-8B"),
        ("meta-llama/Meta-Llama-3-8B", "Llama-3-8B"),
        ("meta-llama/Meta-Llama-3-8B-Instruct", "Llama-3-8B"),
        ("LLAMA 3 8B", "Llama-3-8B"),
        ("meta-llama/Llama-2-7b-chat-hf", "Llama-2-7B"),
        ("meta-llama/Llama-3.1-8B-Instruct", "Llama-3.1-8B"),
        ("qwen2.5-0.5b", "Qwen2.5-0.5B"),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", "Qwen3-30B-A3B-2507"),
        ("mistral-7b", "Mistral-7B-v0.3"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "Mixtral-8x7B"),
        ("HuggingFaceTB/SmolLM2-135M-Instruct", "SmolLM2-135M"),
    ],
)
def test_a_model_is_found_by_what_people_call_it(typed: str, name: str) -> None:
    assert find_model(typed).name == name


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("h100", "H100"),
        ("H100-SXM", "H100"),
        ("a100", "A100-80"),
        ("a100_40gb", "A100-40"),
        ("rtx4090", "RTX 4090"),
        ("RTXPRO6000", "RTX PRO 6000"),
        ("mi300x", "MI300X"),
    ],
)
def test_a_gpu_is_found_by_what_people_call_it(typed: str, name: str) -> None:
    assert find_hardware(typed).name == name


def test_an_unknown_model_names_close_ones_and_all() -> None:
    with pytest.raises(UsageError) as refused:
        find_model("lama-3-8b")
    message = str(refused.value)
    assert "unknown model 'lama-3-8b': did you mean Llama-3-8B" in message
    assert all(name in message for name in all_models())


def test_an_unknown_gpu_names_close_ones_and_all() -> None:
    with pytest.raises(UsageError) as refused:
        find_hardware("h1000")
    assert "did you mean H100" in str(refused.value)
    assert all(name in str(refused.value) for name in all_hardware())


@pytest.mark.parametrize("model", EVERY_MODEL, ids=lambda model: model.name)
def test_the_shape_gives_the_published_parameter_count(model: ModelShape) -> None:
    assert model.published_parameters is not None
    rounded_on_the_card = model.recurrent is not None
    tolerance = 0.01 if rounded_on_the_card else 0.001
    assert model.parameters == pytest.approx(model.published_parameters, rel=tolerance)
    assert model.source.startswith("https://huggingface.co/")


def test_a_mixture_uses_as_many_parameters_as_its_name_says() -> None:
    assert find_model("qwen3-30b-a3b").active_parameters == pytest.approx(3.3e9, rel=0.02)
    assert find_model("mixtral-8x7b").active_parameters == pytest.approx(12.9e9, rel=0.02)


@pytest.mark.parametrize("model", EVERY_MODEL, ids=lambda model: model.name)
def test_weights_and_kv_shrink_with_more_gpus_but_never_below_their_share(model: ModelShape) -> None:
    degrees = [tp for tp in (1, 2, 4, 8, 16) if model.heads % tp == 0 and model.kv_heads % tp == 0]
    weights = [model.weight_bytes(tp) for tp in degrees]
    assert weights == sorted(set(weights), reverse=True)
    for tp, weight in zip(degrees, weights, strict=True):
        assert weight * tp >= model.weight_bytes(1)
        assert model.kv_bytes_per_token(tp) * tp == model.kv_bytes_per_token(1)


def test_kv_heads_are_replicated_beyond_one_each() -> None:
    model = find_model("qwen2.5-3b")
    assert model.kv_bytes_per_token(2) == model.kv_bytes_per_token(4) == model.kv_bytes_per_token(1) // 2


@pytest.mark.parametrize(("model", "kv_bytes"), [("llama-3-8b", 131072), ("qwen2.5-7b", 57344), ("llama-2-7b", 524288)])
def test_kv_bytes_per_token_are_the_known_ones(model: str, kv_bytes: int) -> None:
    assert find_model(model).kv_bytes_per_token() == kv_bytes


@pytest.mark.parametrize(
    ("model", "tp"), [("llama-3-8b", 3), ("qwen2.5-0.5b", 7), ("SmolLM2-135M", 2), ("llama-3-8b", 0)]
)
def test_a_split_that_does_not_fit_is_refused_with_those_that_do(model: str, tp: int) -> None:
    with pytest.raises(UsageError, match=rf"--tp {tp} does not fit .* can be split over 1"):
        find_model(model).weight_bytes(tp)


@pytest.mark.parametrize("spec", all_hardware().values(), ids=lambda spec: spec.name)
def test_every_gpu_is_within_what_exists(spec: HardwareSpec) -> None:
    assert 50e12 <= spec.peak_flops <= 3e15
    assert 250e9 <= spec.hbm_bandwidth_bytes_per_s <= 9e12
    assert 20 << 30 <= spec.memory_bytes <= 200 << 30
    assert spec.link_bandwidth_bytes_per_s >= spec.host_link_bandwidth_bytes_per_s >= 30e9
    assert "data sheet" in spec.source or "white paper" in spec.source


@pytest.mark.parametrize(
    ("folder", "name"),
    [("a100_sxm", "A100-80"), ("h100_sxm", "H100"), ("h200_sxm", "H200"), ("b200_sxm", "B200"), ("l40s", "L40S")],
)
def test_hardware_agrees_with_an_independent_list(folder: str, name: str) -> None:
    fields = yaml_numbers(shared(f"profiles/aiconfigurator/{folder}/{folder}.yaml"))
    spec = find_hardware(name)
    assert spec.peak_flops == pytest.approx(fields["bfloat16_tc_flops"], rel=0.001)
    assert spec.hbm_bandwidth_bytes_per_s == pytest.approx(fields["mem_bw"], rel=0.001)
    assert spec.link_bandwidth_bytes_per_s == pytest.approx(fields["intra_node_bw"], rel=0.001)
    assert spec.memory_bytes == pytest.approx(fields["mem_capacity"], rel=0.01)


def yaml_numbers(path: Path) -> dict[str, int]:
    return {key: int(value) for key, value in re.findall(r"^\s+(\w+): (\d+)\b", path.read_text("utf-8"), re.MULTILINE)}
