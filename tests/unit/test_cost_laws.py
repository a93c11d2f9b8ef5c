"""Laws that hold for every cost model, every bundled model and several GPUs."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.sim.costs.base import CostModel
from backends.sim.costs.constant import Constant
from backends.sim.costs.registry import build_cost
from backends.sim.costs.roofline import Roofline
from backends.sim.specs.hardware import find_hardware
from backends.sim.specs.models import all_models, find_model
from schedlab.errors import UsageError

EVERY_MODEL = sorted(all_models())
EVERY_SETTING = [(hardware, model) for hardware in ("H100", "L4", "MI300X") for model in EVERY_MODEL]
COSTS: dict[str, CostModel] = {
    "constant": Constant(10_000, per_row_ns=7, per_context_token_ns=0.3, per_prefill_token_ns=11.5),
    "dense": build_cost("roofline", find_hardware("h100"), find_model("llama-3-8b")),
    "tied": build_cost("roofline", find_hardware("a10g"), find_model("SmolLM2-135M")),
    "sharded": build_cost("roofline", find_hardware("a100-80"), find_model("llama-3-70b"), tp=8),
    "experts": build_cost("roofline", find_hardware("h200"), find_model("qwen3-30b-a3b"), tp=2),
    "windowed": build_cost("roofline", find_hardware("l40s"), find_model("mistral-7b-v0.1")),
}
CHUNKS = st.lists(st.tuples(st.integers(0, 20_000), st.integers(1, 8192)), max_size=4)


def step(cost: CostModel, contexts: Sequence[int], chunks: Sequence[tuple[int, int]] = ()) -> int:
    """One step of decode rows with these contexts."""
    window = cost.window_tokens
    windowed = None if window is None else sum(min(context, window) for context in contexts)
    return cost.step_quanta(len(contexts), sum(contexts), chunks, windowed)


def assert_run_equals_steps(cost: CostModel, contexts: list[int], count: int) -> None:
    window, windowed, growth = cost.window_tokens, None, 0
    if window is not None:
        windowed = sum(min(context, window) for context in contexts)
        growth = sum(context < window for context in contexts)
        count = min([count, *(window - context + 1 for context in contexts if context < window)])
    start = 2**61 + 12345
    pace = cost.decode_pace(len(contexts), sum(contexts), start, count, windowed, growth)
    stepped = CostModel.decode_pace(cost, len(contexts), sum(contexts), start, count, windowed, growth)
    expected = [step(cost, [context + i for context in contexts]) for i in range(count)]
    assert list(pace.durations()) == expected == list(stepped.durations())
    assert pace.end_quanta(count) == start + sum(expected)


@pytest.mark.parametrize(("hardware", "model"), EVERY_SETTING)
def test_a_decode_run_equals_its_steps_on_every_bundled_model(hardware: str, model: str) -> None:
    shape = find_model(model)
    for tp in (1, 8) if shape.heads % 8 == 0 and shape.kv_heads % 8 == 0 else (1,):
        cost = build_cost("roofline", find_hardware(hardware), shape, tp)
        assert_run_equals_steps(cost, [0, 17, 4000, 4095, 4096, 9000], 40)
        assert_run_equals_steps(cost, [1] * 256, 25)


@pytest.mark.parametrize("name", COSTS)
@given(contexts=st.lists(st.integers(0, 10_000), min_size=1, max_size=12), count=st.integers(1, 60))
def test_a_decode_run_equals_its_steps(name: str, contexts: list[int], count: int) -> None:
    assert_run_equals_steps(COSTS[name], contexts, count)


@pytest.mark.parametrize("name", COSTS)
@given(contexts=st.lists(st.integers(0, 10_000), max_size=12), chunks=CHUNKS)
def test_a_step_that_is_not_empty_takes_time(name: str, contexts: list[int], chunks: list[tuple[int, int]]) -> None:
    if contexts or chunks:
        assert step(COSTS[name], contexts, chunks) > 0


@pytest.mark.parametrize("name", COSTS)
@given(contexts=st.lists(st.integers(0, 10_000), max_size=12), chunks=CHUNKS, data=st.data())
def test_more_work_never_takes_less_time(
    name: str, contexts: list[int], chunks: list[tuple[int, int]], data: st.DataObject
) -> None:
    cost = COSTS[name]
    base = step(cost, contexts, chunks)
    assert step(cost, [*contexts, data.draw(st.integers(0, 10_000))], chunks) >= base
    assert step(cost, [context + 1 for context in contexts], chunks) >= base
    assert step(cost, contexts, [*chunks, data.draw(st.tuples(st.integers(0, 9000), st.integers(1, 999)))]) >= base
    assert step(cost, contexts, [(start, count + 1) for start, count in chunks]) >= base
    assert step(cost, contexts, [(start + 1, count) for start, count in chunks]) >= base


@pytest.mark.parametrize("model", EVERY_MODEL)
def test_a_long_decode_step_and_a_long_prefill_grow_with_their_size(model: str) -> None:
    cost = build_cost("roofline", find_hardware("h100"), find_model(model))
    assert step(cost, [3000] * 64) > step(cost, [100] * 64) > step(cost, [100] * 8)
    assert step(cost, [], [(0, 8192)]) > step(cost, [], [(0, 4096)])
    assert step(cost, [], [(4096, 4096)]) > step(cost, [], [(0, 4096)])


@pytest.mark.parametrize("model", ["llama-3-70b", "qwen3-32b", "mixtral-8x7b"])
def test_more_gpus_decode_faster_but_not_in_proportion(model: str) -> None:
    times = [
        step(build_cost("roofline", find_hardware("h100"), find_model(model), tp), [2000] * 64) for tp in (1, 2, 4, 8)
    ]
    assert times == sorted(times, reverse=True)
    assert times[0] < 8 * times[3]


@pytest.mark.parametrize("name", COSTS)
def test_a_description_survives_json(name: str) -> None:
    described = COSTS[name].describe()
    assert json.loads(json.dumps(described)) == described
    assert described["name"] in ("constant", "roofline")


def test_descriptions_name_a_source_for_each_assumption() -> None:
    described = COSTS["dense"].describe()
    assert described["sources"].keys() == described["parameters"].keys()


def test_parameters_override_the_defaults_and_change_the_time() -> None:
    hardware, model = find_hardware("h100"), find_model("llama-3-8b")
    slower = build_cost("roofline", hardware, model, parameters={"hbm_percent": "40", "host_ns": "0"})
    assert slower.describe()["parameters"]["hbm_percent"] == 40
    assert slower.step_quanta(1, 100) > build_cost("roofline", hardware, model).step_quanta(1, 100)
    constant = build_cost("constant", hardware, model, parameters={"step_ns": "1000", "per_row_ns": "0.5"})
    assert constant.step_quanta(4, 1000) == 1002 << 20


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("oracle", {}, "unknown cost model 'oracle'; known: roofline, constant"),
        ("roofline", {"mfu": "50"}, "has no parameter 'mfu'; it has gemm_percent"),
        ("roofline", {"gemm_percent": "fast"}, "gemm_percent must be a number, got 'fast'"),
        ("roofline", {"gemm_percent": "0"}, "gemm_percent must be a whole number in 1..100"),
        ("roofline", {"hbm_percent": "70.5"}, "hbm_percent must be a whole number"),
        ("roofline", {"kernel_ns": "nan"}, "must be a finite number"),
        ("constant", {"step_ns": "0"}, "step_ns must be positive"),
        ("constant", {"per_row_ns": "-1"}, "per_row_ns must be a finite number of nanoseconds >= 0"),
    ],
)
def test_a_bad_cost_model_is_refused_with_what_is_wrong(name: str, parameters: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        build_cost(name, find_hardware("h100"), find_model("llama-3-8b"), parameters=parameters)
    assert message in str(refused.value)


def test_a_split_that_the_heads_do_not_allow_is_refused() -> None:
    with pytest.raises(UsageError, match=r"--tp 3 does not fit Llama-3-8B.* 1, 2, 4, 8, 16, 32 GPUs"):
        Roofline(find_hardware("h100"), find_model("llama-3-8b"), tp=3)


def test_a_windowed_model_asks_for_the_windowed_sum() -> None:
    with pytest.raises(ValueError, match="needs windowed_tokens"):
        COSTS["windowed"].step_quanta(1, 100)
