"""Plans of bundled models on bundled GPUs: each fits or names changes that then do; more memory never means less KV."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from backends.sim.specs.hardware import all_hardware, find_hardware
from backends.sim.specs.models import all_models, find_model
from backends.sim.specs.shape import ModelShape
from experiments.memory import plan_for
from experiments.options import ReplayOptions
from schedlab.errors import UsageError
from schedlab.memory.reserve import MemoryPlan

MODELS = list(all_models().values())
HARDWARE = list(all_hardware())
PRESETS = ("vllm", "met", "sarathi", "orca")


def plan(hardware: str, model: ModelShape, options: ReplayOptions) -> MemoryPlan:
    return plan_for(options, find_hardware(hardware), model)


def ways_out(message: str) -> list[ReplayOptions]:
    """The changed options that a refusal names."""
    settings = [{name: value} for name, value in re.findall(r"with --set (\w+)=(\d+)", message)]
    degrees = [int(tp) for tp in re.findall(r"with --tp (\d+)", message)]
    return [*(ReplayOptions(set=one) for one in settings), *(ReplayOptions(tp=tp) for tp in degrees)]


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_a_model_fits_or_the_refusal_names_changes_that_then_fit(model: ModelShape, preset: str) -> None:
    for hardware in HARDWARE:
        try:
            planned = plan(hardware, model, ReplayOptions(preset=preset))
        except UsageError as refused:
            message = str(refused)
            assert f"{model.name} does not fit on 1 x {hardware}" in message
            ways = ways_out(message)
            assert ways or "no length, --tp or number of sequences fits" in message
            for way in ways:
                assert plan(hardware, model, replace(way, preset=preset)).full_sequences >= 1
        else:
            assert sum(planned.owners.values()) == find_hardware(hardware).memory_bytes
            assert planned.full_sequences >= 1


def test_the_length_that_a_refusal_names_is_the_longest() -> None:
    llama = find_model("llama-3.1-8b")
    with pytest.raises(UsageError, match=r"max_model_len 131072 needs 16\.00 GiB of KV; it fits with") as refused:
        plan("L4", llama, ReplayOptions())
    length, tp = ways_out(str(refused.value))
    longest = int(length.set["max_model_len"])
    assert (longest, tp.tp) == (32704, 2)
    assert plan("L4", llama, length).full_sequences == 1
    with pytest.raises(UsageError, match="does not fit"):
        plan("L4", llama, ReplayOptions(set={"max_model_len": str(longest + 1)}))


def test_a_hybrid_whose_state_is_too_much_is_told_how_many_sequences_fit() -> None:
    model = find_model("nemotron-h-8b")
    with pytest.raises(UsageError, match=r"24\.35 GiB of state for 256 sequences") as refused:
        plan("L4", model, ReplayOptions())
    seats = int(ways_out(str(refused.value))[0].set["max_num_seqs"])
    assert plan("L4", model, ReplayOptions(set={"max_num_seqs": str(seats)})).state_slots == seats
    with pytest.raises(UsageError):
        plan("L4", model, ReplayOptions(set={"max_num_seqs": str(seats + 1)}))


@pytest.mark.parametrize("percent", [90, 100])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_more_gpus_never_hold_fewer_blocks(model: ModelShape, percent: int) -> None:
    fitting = []
    for tp in model.tp_degrees():
        try:
            fitting.append(plan("B200", model, ReplayOptions(tp=tp, memory_percent=percent)).num_blocks)
        except UsageError:
            assert not fitting
    assert fitting and fitting == sorted(fitting)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_more_memory_always_holds_more_blocks(model: ModelShape) -> None:
    options = ReplayOptions(tp=max(tp for tp in model.tp_degrees() if tp <= 8), set={"max_model_len": "2048"})
    gpu = find_hardware("H200")
    sizes = [plan_for(options, replace(gpu, memory_bytes=gib << 30), model) for gib in (100, 120, 140, 180)]
    blocks = [planned.num_blocks for planned in sizes]
    assert blocks == sorted(set(blocks))


def test_a_hybrid_pays_kv_for_the_layers_that_attend_only() -> None:
    model = find_model("qwen3-next-80b-a3b")
    planned = plan("H200", model, ReplayOptions(tp=4))
    assert planned.block_bytes == 16 * 12 * 2 * 1 * 256 * 2
    assert planned.state_bytes == 256 * model.state_bytes(4)
    dense = replace(model, recurrent=None)
    assert dense.kv_bytes_per_token(4) == 4 * model.kv_bytes_per_token(4)


@pytest.mark.parametrize("model", ["llama-3-8b", "qwen3-8b"])
def test_a_plain_model_keeps_no_state(model: str) -> None:
    planned = plan("H100", find_model(model), ReplayOptions())
    assert (planned.state_bytes, planned.state_slots, planned.snapshots_bytes) == (0, 0, 0)
