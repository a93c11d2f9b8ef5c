"""The roofline's parts: what is read once, what is read per token, and which side of the roof an operator is on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.sim.costs.assumptions import Assumptions
from backends.sim.costs.attention import Attention, windowed_pairs
from backends.sim.costs.operators import QUANTA_PER_S, AllReduce, Experts, Linear, Rates, quanta
from backends.sim.costs.roofline import Roofline
from backends.sim.specs.hardware import find_hardware
from backends.sim.specs.models import find_model

H100 = find_hardware("h100")
RATES = Rates.of(H100, Assumptions())
IDEAL = Assumptions(
    gemm_percent=100, attention_percent=100, hbm_percent=100, link_percent=100, kernel_ns=0, launch_ns=0, host_ns=0
)


def test_one_row_decodes_at_the_speed_of_reading_the_weights() -> None:
    model = find_model("llama-3-8b")
    cost = Roofline(H100, model, assumptions=IDEAL)
    read_bytes = (model.parameters - model.vocab * model.hidden) * 2
    bound = read_bytes * QUANTA_PER_S // H100.hbm_bandwidth_bytes_per_s
    assert bound <= cost.step_quanta(1, 0) <= bound * 101 // 100


def test_a_long_prefill_runs_at_the_speed_of_its_arithmetic() -> None:
    model, tokens = find_model("llama-3-8b"), 8192
    cost = Roofline(H100, model, assumptions=IDEAL)
    linear = 2 * (model.parameters - 2 * model.vocab * model.hidden) * tokens
    attention = 4 * model.hidden * model.layers * tokens * (tokens + 1) // 2
    bound = (linear + attention) * QUANTA_PER_S // H100.peak_flops
    assert bound <= cost.step_quanta(0, 0, [(0, tokens)]) <= bound * 115 // 100


def test_a_context_token_costs_its_grouped_kv_bytes() -> None:
    model = find_model("llama-3-8b")
    cost = Roofline(H100, model, assumptions=IDEAL)
    per_token = cost.step_quanta(1, 1001) - cost.step_quanta(1, 1000)
    assert per_token == -(-131072 * QUANTA_PER_S // H100.hbm_bandwidth_bytes_per_s)


def test_query_heads_decide_arithmetic_and_kv_heads_bytes() -> None:
    grouped = find_model("llama-3-8b")
    ungrouped = replace(grouped, kv_heads=grouped.heads)
    few, many = (Attention(RATES, model, 1, model.layers) for model in (grouped, ungrouped))
    assert many.per_token == pytest.approx(4 * few.per_token, rel=1e-6)
    assert many.chunks_quanta([(0, 4096)]) == few.chunks_quanta([(0, 4096)])


@given(st.integers(0, 300), st.integers(1, 300), st.integers(1, 300))
def test_windowed_pairs_equal_counting_each_token(start: int, count: int, window: int) -> None:
    assert windowed_pairs(start, count, window) == sum(min(start + i, window) for i in range(1, count + 1))


def test_a_window_wider_than_the_context_changes_nothing() -> None:
    model = find_model("llama-3-8b")
    full, wide = Attention(RATES, model, 1, 32), Attention(RATES, model, 1, 32, window=100_000)
    chunks = [(0, 512), (700, 33)]
    assert full.chunks_quanta(chunks) == wide.chunks_quanta(chunks)


def test_layers_with_and_without_a_window_add_up() -> None:
    base = replace(find_model("mistral-7b-v0.1"), window_tokens=256)
    rows, context, inside = 10, 40_000, 2_560
    full = Roofline(H100, replace(base, window_tokens=None, windowed_layers=0), assumptions=IDEAL)
    none = full.step_quanta(rows, 0)
    mixed = Roofline(H100, replace(base, windowed_layers=24), assumptions=IDEAL)
    everywhere = full.step_quanta(rows, context) - none
    expected = none + everywhere // 4 + everywhere * 3 // 4 * inside // context
    assert mixed.step_quanta(rows, context, (), inside) == pytest.approx(expected, rel=1e-3)


def moe(tokens: int, name: str = "qwen3-30b-a3b") -> tuple[int, Experts]:
    model = find_model(name)
    experts = Experts(Linear(1, 1, 10**15), model.experts, model.experts_per_token)
    return experts.quanta(tokens), experts


@given(st.integers(1, 3000), st.sampled_from(["qwen3-30b-a3b", "mixtral-8x7b"]))
def test_touched_experts_lie_between_one_tokens_choice_and_all(tokens: int, name: str) -> None:
    model = find_model(name)
    time, experts = moe(tokens, name)
    touched = experts.weights * model.experts_per_token // model.experts
    assert min(touched, time) * 1000 >= touched * 999
    assert time <= experts.weights + tokens
    exact = model.experts * (1 - (1 - model.experts_per_token / model.experts) ** tokens)
    assert (time - tokens) / experts.weights * model.experts == pytest.approx(exact, rel=1e-9)


@given(st.integers(0, 3000))
def test_more_tokens_never_touch_fewer_experts(tokens: int) -> None:
    _, experts = moe(1)
    assert experts.missed(tokens + 1) <= experts.missed(tokens)


def test_a_mixture_decodes_faster_than_a_dense_model_of_its_size() -> None:
    mixture = find_model("mixtral-8x7b")
    dense = replace(mixture, experts=0, experts_per_token=0, moe_intermediate=0, intermediate=8 * 14336)
    few = [Roofline(H100, model, 4).step_quanta(1, 500) for model in (mixture, dense)]
    many = [Roofline(H100, model, 4).step_quanta(256, 500) for model in (mixture, dense)]
    assert few[0] * 2 < few[1]
    assert many[0] > few[0] * 2


def test_an_all_reduce_moves_more_with_more_gpus_and_nothing_with_one() -> None:
    one, two, eight = (AllReduce.of(RATES, 8192, tp, 6000, 1) for tp in (1, 2, 8))
    assert one.quanta(512) == 0
    assert two.quanta(512) == pytest.approx(
        (6000 << 20) + 8192 * 512 * QUANTA_PER_S * 100 // (H100.link_bandwidth_bytes_per_s * 75), rel=1e-3
    )
    assert two.quanta(512) < eight.quanta(512) < 2 * two.quanta(512)


def test_a_captured_decode_step_hides_the_launches_that_a_small_prefill_pays() -> None:
    cost = Roofline(H100, find_model("SmolLM2-135M"), assumptions=replace(IDEAL, launch_ns=5_000))
    launches = (30 * 11 + 4) * 5_000 << 20
    assert cost.step_quanta(1, 10) < launches
    assert cost.step_quanta(1, 10, [(0, 8)]) == launches


def test_any_amount_of_work_takes_at_least_one_quantum() -> None:
    assert quanta(1, 10**30) == 1
