"""How long a device takes, and what goes wrong with it."""

from __future__ import annotations

from functools import cache
from typing import TypeVar

from hypothesis import strategies as st

from schedlab.device import CopyKind
from schedlab.fault_plan import CopyFailure, FaultPlan, SlowLinks, SlowSteps, StepFailure, Which, Window
from schedlab.testing.world import Cost, constant

MODELS = ("llama-3-8b", "mistral-7b-v0.1", "qwen3-30b-a3b", "nemotron-h-8b")
WINDOWED_MODEL = "mistral-7b-v0.1"
_T = TypeVar("_T")


@st.composite
def costs(draw: st.DrawFn) -> tuple[Cost, int]:
    """A cost model, and a time in nanoseconds that a few of its steps take."""
    kind = draw(st.sampled_from(("even", "odd", "erratic", "roofline")))
    if kind == "even":
        return constant(1000), 1000
    if kind == "odd":
        step_ns = draw(st.sampled_from((1000, 999.75, 333.3333, 1, 0.3)))
        names = ("per_row_ns", "per_context_token_ns", "per_prefill_token_ns")
        return constant(step_ns, **{name: draw(st.sampled_from((0, 1, 0.37, 100))) for name in names}), 1000
    window_tokens = draw(st.sampled_from((0, 1, 5, 20)))
    if kind == "erratic":
        most_quanta = draw(st.sampled_from((1, 1 << 10, 1 << 31)))
        seed = draw(st.integers(0, 9))
        return Cost("erratic", {"seed": seed, "most_quanta": most_quanta, "window_tokens": window_tokens}), 1000
    model = draw(st.sampled_from(MODELS))
    parameters: dict[str, float | str] = {"model": model, "hardware": "h100"}
    if window_tokens and model == WINDOWED_MODEL:
        parameters["window_tokens"] = window_tokens
    return Cost("roofline", parameters), 5_000_000


@st.composite
def links(draw: st.DrawFn, block_bytes: int, unit_ns: int) -> dict[CopyKind, tuple[int, int]]:
    """From far faster than a step to many steps for a block."""
    specs = {}
    for kind in CopyKind:
        per_block_ns, latency_ns = draw(_times_per_block(unit_ns)), draw(_latencies(unit_ns))
        specs[kind] = (max(block_bytes * 1_000_000_000 // per_block_ns, 1), latency_ns)
    return specs


@cache
def _times_per_block(unit_ns: int) -> st.SearchStrategy[int]:
    return st.sampled_from((1, unit_ns // 3 + 1, 2 * unit_ns, 20 * unit_ns))


@cache
def _latencies(unit_ns: int) -> st.SearchStrategy[int]:
    return st.sampled_from((0, unit_ns // 7, 3 * unit_ns))


def fault_plans(unit_ns: int) -> st.SearchStrategy[FaultPlan]:
    """Nothing, one thing or everything at once; a few steps take `unit_ns`."""
    times = st.integers(0, 100 * unit_ns)
    windows = st.builds(lambda begin, length: Window(begin, begin + length), times, st.integers(1, 50 * unit_ns))
    permille = st.sampled_from((1001, 1500, 3000, 40_000))
    kinds = st.lists(st.sampled_from(CopyKind), min_size=1, unique=True).map(tuple)
    steps = _which(80, (0.01, 0.1))
    return st.builds(
        FaultPlan,
        step_failures=_few(steps.map(StepFailure) | times.map(lambda at_ns: StepFailure(at_ns=at_ns))),
        device_losses=_rarely(st.integers(1, 200).map(lambda number: StepFailure(Which((number,))))),
        slow_steps=_few(
            st.builds(SlowSteps, permille, steps) | st.builds(SlowSteps, permille, window=windows, which=st.none())
        ),
        slow_links=_few(st.builds(SlowLinks, permille, windows, kinds)),
        copy_failures=_few(st.builds(CopyFailure, _which(12, (0.1, 0.5, 1.0)), kinds)),
        disk_full=_few(windows),
    )


def _which(most: int, chances: tuple[float, ...]) -> st.SearchStrategy[Which]:
    """Some by number, or each by chance."""
    listed = st.lists(st.integers(1, most), min_size=1, max_size=4, unique=True).map(lambda found: Which(tuple(found)))
    return listed | st.builds(
        lambda chance, seed: Which((), chance, seed), st.sampled_from(chances), st.integers(0, 99)
    )


def _few(one: st.SearchStrategy[_T]) -> st.SearchStrategy[tuple[_T, ...]]:
    return st.just(()) | st.lists(one, max_size=2).map(tuple)


def _rarely(one: st.SearchStrategy[_T]) -> st.SearchStrategy[tuple[_T, ...]]:
    return st.integers(0, 9).flatmap(lambda number: one.map(lambda found: (found,)) if number == 9 else st.just(()))
