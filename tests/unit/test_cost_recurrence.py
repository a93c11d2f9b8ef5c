"""Recurrent layers in the roofline: a state costs the same at every context, and prefill pays the scan's arithmetic."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.sim.costs.assumptions import Assumptions
from backends.sim.costs.operators import QUANTA_PER_S
from backends.sim.costs.roofline import Roofline
from backends.sim.specs.hardware import find_hardware
from backends.sim.specs.models import all_models, find_model
from backends.sim.specs.shape import ModelShape

H100 = find_hardware("h100")
IDEAL = Assumptions(
    gemm_percent=100, attention_percent=100, hbm_percent=100, link_percent=100, kernel_ns=0, launch_ns=0, host_ns=0
)
HYBRID_MODELS = [model for model in all_models().values() if model.recurrent]


@pytest.mark.parametrize("model", HYBRID_MODELS, ids=lambda model: model.name)
@given(rows=st.integers(1, 256), context=st.integers(0, 10**6), more=st.integers(1, 10**6))
def test_a_decode_step_is_a_of_rows_plus_b_times_context(model: ModelShape, rows: int, context: int, more: int) -> None:
    cost = Roofline(H100, model)
    per_token = cost.step_quanta(1, 1) - cost.step_quanta(1, 0)
    assert cost.step_quanta(rows, context + more) - cost.step_quanta(rows, context) == more * per_token


@pytest.mark.parametrize("model", HYBRID_MODELS, ids=lambda model: model.name)
def test_a_row_reads_and_writes_its_state_once_a_step(model: ModelShape) -> None:
    assert model.recurrent is not None
    narrow = replace(model, recurrent=replace(model.recurrent, state_dtype_bytes=2))
    full, half = Roofline(H100, model, assumptions=IDEAL), Roofline(H100, narrow, assumptions=IDEAL)
    saved = full.step_quanta(64, 64_000) - half.step_quanta(64, 64_000)
    moved_bytes = 64 * 2 * (model.state_bytes() - narrow.state_bytes())
    assert saved == pytest.approx(moved_bytes * QUANTA_PER_S / H100.hbm_bandwidth_bytes_per_s, rel=1e-6)


@pytest.mark.parametrize("model", HYBRID_MODELS, ids=lambda model: model.name)
def test_a_long_prefill_pays_the_scan_once_a_token(model: ModelShape) -> None:
    assert model.recurrent is not None
    cost = Roofline(H100, model, assumptions=IDEAL)
    slower = Roofline(H100, replace(model, recurrent=replace(model.recurrent, chunk_tokens=1024)), assumptions=IDEAL)
    wider = replace(model.recurrent, chunk_tokens=1024).scan_flops_per_token(1) - model.recurrent.scan_flops_per_token(
        1
    )
    extra = slower.step_quanta(0, 0, [(0, 8192)]) - cost.step_quanta(0, 0, [(0, 8192)])
    assert extra == pytest.approx(8192 * wider * QUANTA_PER_S / H100.peak_flops, rel=0.001)


def test_scan_arithmetic_is_counted_from_the_block_form() -> None:
    mamba, delta = find_model("nemotron-h-8b").recurrent, find_model("qwen3-next-80b-a3b").recurrent
    assert mamba is not None and delta is not None
    inside, state = 8 * 2 * 128 * 128 + 128 * 2 * 128 * 64, 128 * 4 * 128 * 64
    assert mamba.scan_flops_per_token(1) == 24 * (inside + state)
    assert delta.scan_flops_per_token(1) == 36 * 32 * (2 * 64 * 5 * 128 + 6 * 128 * 128)
    assert delta.scan_flops_per_token(4) * 4 == delta.scan_flops_per_token(1)


def test_a_short_chunk_is_bound_by_moving_the_state() -> None:
    cost = Roofline(H100, find_model("nemotron-h-8b"), assumptions=IDEAL)
    two, one = cost.step_quanta(0, 0, [(0, 1), (0, 1)]), cost.step_quanta(0, 0, [(0, 2)])
    state = 2 * find_model("nemotron-h-8b").state_bytes() * QUANTA_PER_S // H100.hbm_bandwidth_bytes_per_s
    assert two - one == pytest.approx(state, rel=0.01)


def test_long_contexts_are_cheaper_to_decode_than_in_a_transformer_of_that_size() -> None:
    hybrid, plain = Roofline(H100, find_model("nemotron-h-8b")), Roofline(H100, find_model("llama-3.1-8b"))
    grown = [cost.step_quanta(16, 16 * 100_000) - cost.step_quanta(16, 16) for cost in (hybrid, plain)]
    assert grown[1] == pytest.approx(8 * grown[0], rel=0.01)
