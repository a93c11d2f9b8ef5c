"""The memory plan: bytes are per GPU, the shares add up, and what does not fit is refused with the numbers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.sim.specs.hardware import find_hardware
from backends.sim.specs.models import find_model
from schedlab.errors import UsageError
from schedlab.memory.reserve import MemoryPlan, peak_activation_bytes, plan_memory

GIB = 1 << 30


def plan(**changes: Any) -> MemoryPlan:
    """A plan whose pool is exactly 1 GiB, but for *changes*."""
    numbers = {
        "memory_bytes": 4 * GIB,
        "weights_bytes": 2 * GIB,
        "activations_bytes": GIB,
        "kv_bytes_per_token": 131072,
        "block_size": 16,
        "utilisation_percent": 100,
        "context_bytes": 0,
    }
    return plan_memory(**{**numbers, **changes})


@pytest.mark.parametrize("block_size", [1, 16, 48, 64])
@pytest.mark.parametrize("ranks", [1, 4])
@pytest.mark.parametrize(("model", "kv_bytes"), [("llama-3-8b", 131072), ("qwen2.5-7b", 57344)])
def test_a_prompt_takes_whole_blocks_of_this_gpus_share(model: str, kv_bytes: int, ranks: int, block_size: int) -> None:
    share = find_model(model).kv_bytes_per_token(ranks)
    assert share * ranks == kv_bytes
    planned = plan(kv_bytes_per_token=share, block_size=block_size)
    assert planned.kv_bytes == GIB
    assert planned.block_bytes == block_size * kv_bytes // ranks
    assert planned.num_blocks == GIB // (block_size * kv_bytes // ranks)
    prompt_blocks = -(-1024 // block_size)
    assert prompt_blocks * planned.block_bytes == -(-1024 // block_size) * block_size * kv_bytes // ranks


@given(
    memory=st.integers(2 * GIB, 200 * GIB),
    weights=st.integers(0, GIB),
    activations=st.integers(0, 100 << 20),
    per_token=st.integers(1, 2**20),
    block_size=st.integers(1, 128),
    percent=st.integers(90, 100),
)
def test_the_shares_add_up_and_less_than_a_block_is_left(
    memory: int, weights: int, activations: int, per_token: int, block_size: int, percent: int
) -> None:
    planned = plan_memory(
        memory_bytes=memory,
        weights_bytes=weights,
        activations_bytes=activations,
        kv_bytes_per_token=per_token,
        block_size=block_size,
        utilisation_percent=percent,
        context_bytes=1 << 20,
    )
    parts = planned.weights_bytes + planned.activations_bytes + planned.reserve_bytes + planned.kv_bytes
    assert parts == planned.total_bytes == memory
    assert 0 <= planned.kv_bytes - planned.num_blocks * planned.block_bytes < planned.block_bytes


def test_one_block_exactly_is_enough_and_one_byte_less_is_not() -> None:
    block_bytes = 16 * 131072
    assert plan(activations_bytes=2 * GIB - block_bytes).num_blocks == 1
    with pytest.raises(UsageError, match=r"leave no room for KV behind 2\.00 GiB of weights"):
        plan(activations_bytes=2 * GIB - block_bytes + 1)


def test_weights_that_do_not_fit_name_the_numbers_and_the_ways_out() -> None:
    model, gpu = find_model("llama-3-70b"), find_hardware("h100")
    with pytest.raises(UsageError) as refused:
        plan(memory_bytes=gpu.memory_bytes, weights_bytes=model.weight_bytes(1), utilisation_percent=90)
    message = str(refused.value)
    assert "71.68 GiB usable of 79.65 GiB (90 %) do not hold 131.42 GiB of weights" in message
    assert "--tp" in message
    assert plan(memory_bytes=gpu.memory_bytes, weights_bytes=model.weight_bytes(4), utilisation_percent=90)


def test_a_known_setting_has_a_known_number_of_blocks() -> None:
    model, gpu = find_model("llama-3-8b"), find_hardware("h100")
    activations = peak_activation_bytes(
        max_num_batched_tokens=8192,
        max_num_seqs=256,
        hidden=model.hidden,
        mlp_width=model.mlp_width,
        vocab=model.vocab,
        dtype_bytes=2,
        tp=1,
    )
    assert activations == 8192 * (2 * 4096 + 3 * 14336) * 2
    planned = plan_memory(
        memory_bytes=gpu.memory_bytes,
        weights_bytes=model.weight_bytes(),
        activations_bytes=activations,
        kv_bytes_per_token=model.kv_bytes_per_token(),
        block_size=16,
    )
    assert planned.num_blocks == 28380


def test_activations_grow_with_tokens_and_logits_with_sequences() -> None:
    shape = {"hidden": 576, "mlp_width": 1536, "vocab": 49152, "dtype_bytes": 2, "tp": 1}
    few = peak_activation_bytes(max_num_batched_tokens=64, max_num_seqs=256, **shape)
    assert few == 256 * 49152 * 6
    assert peak_activation_bytes(max_num_batched_tokens=8192, max_num_seqs=8, **shape) == 8192 * (1152 + 4608) * 2
    assert peak_activation_bytes(max_num_batched_tokens=64, max_num_seqs=512, **shape) == 2 * few


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"utilisation_percent": 0}, "utilisation must be 1..100"),
        ({"utilisation_percent": 101}, "utilisation must be 1..100"),
        ({"block_size": 0}, "block size must be positive"),
        ({"kv_bytes_per_token": 0}, "KV bytes per token must be positive"),
        ({"memory_bytes": 0}, "memory must be positive"),
    ],
)
def test_numbers_without_meaning_are_refused(changes: dict[str, int], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        plan(**changes)
