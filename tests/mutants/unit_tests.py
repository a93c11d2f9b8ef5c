"""Attacks by the suite's own tests of single units: with their own fixtures and parameters, and what they draw."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import pytest

from tests.mutants.attack import Attack
from tests.mutants.seeded import draw_again

# Modules of tests that take milliseconds and follow from nothing but themselves.
MODULES = (
    "unit.test_batch_aggregates",
    "unit.test_blocks_pool",
    "unit.test_cache_reset",
    "unit.test_cheapest_shares",
    "unit.test_chunks_give_way",
    "unit.test_commitment_ledger",
    "unit.test_inbox_order",
    "unit.test_limits_outputs",
    "unit.test_load_code",
    "unit.test_memory_plan_fits",
    "unit.test_memory_plan_model",
    "unit.test_memory_plan_shares",
    "unit.test_nothing_is_kept",
    "unit.test_policies_installed",
    "unit.test_policies_model",
    "unit.test_pools_model",
    "unit.test_presets_exact",
    "unit.test_presets_published",
    "unit.test_queues_order",
    "unit.test_registry_build",
    "unit.test_registry_texts",
    "unit.test_slots_model",
    "unit.test_snapshots_chunks",
    "unit.test_snapshots_pool",
    "unit.test_snapshots_sessions",
    "unit.test_snapshots_slots",
    "unit.test_spill_budget",
    "unit.test_spill_damage",
    "unit.test_spill_full_disk",
    "unit.test_spill_holding",
    "unit.test_spill_layout",
    "unit.test_spill_processes",
    "unit.test_spill_round_trip",
    "unit.test_spill_store_model",
    "unit.test_spill_threads",
    "unit.test_stops_order",
    "unit.test_swap_space",
    "unit.test_swap_at_admission",
    "unit.test_views_model",
    "unit.test_windows_waiting",
    "unit.test_driver_stall",
    "unit.test_ends_of_outputs",
    "conformance.test_block_pool_faults",
    "conformance.test_memory_units",
    "conformance.test_prefix_chain",
    "conformance.test_prefix_keys",
    "conformance.test_prefix_pool",
    "conformance.test_priority_eviction",
    "conformance.test_swapping",
    "conformance.test_degenerate",
    "conformance.test_faults",
)
# A sweep over all models and GPUs; one that draws texts; two of threads: one waits a minute where
# something is wrong, one does not follow from itself alone; and three that start processes of their own, in which
# nothing is wrong.
LEFT_OUT = (
    "test_a_directory_held_by_a_live_process_is_refused_and_untouched",
    "test_a_model_fits_or_the_refusal_names_changes_that_then_fit",
    "test_after_a_kill_in_mid_write_a_new_store_starts_clean",
    "test_any_image_comes_back_bit_by_bit_from_either_tier_and_through_moves",
    "test_processes_that_take_and_leave_one_directory_never_share_it",
    "test_the_scheduler_is_answered_while_an_image_is_written",
    "test_two_threads_at_random_leave_nothing_and_read_nothing_wrong",
)
# Examples of a test that draws them.
DRAWN = 60


def _folder(stack: ExitStack) -> Path:
    return Path(stack.enter_context(TemporaryDirectory()))


def _patch(stack: ExitStack) -> pytest.MonkeyPatch:
    return stack.enter_context(pytest.MonkeyPatch.context())


FIXTURES: dict[str, Callable[[ExitStack], Any]] = {"tmp_path": _folder, "monkeypatch": _patch}


def unit_attacks() -> list[Attack]:
    """One for each test, with all its parameters."""
    return [
        Attack(f"{name.rpartition('.')[2]}: {test.__name__}", partial(attack, module, test))
        for name, module in ((name, import_module(f"tests.{name}")) for name in MODULES)
        for test in _tests(module)
    ]


def attack(module: ModuleType, test: Callable[..., None]) -> None:
    """Run a test of a module with each of its sets of parameters."""
    for parameters in _parameters(test):
        with ExitStack() as stack:
            made = dict(parameters)
            for name in _needs(test):
                _make(name, module, made, stack)
            given = {name: made[name] for name in _needs(test)}
            if hasattr(test, "hypothesis"):
                draw_again(test, given, DRAWN)
            else:
                test(**given)


def _tests(module: ModuleType) -> Iterator[Callable[..., None]]:
    for name, test in vars(module).items():
        if name.startswith("test_") and inspect.isfunction(test) and name not in LEFT_OUT:
            yield test


def _make(name: str, module: ModuleType, made: dict[str, Any], stack: ExitStack) -> None:
    """Put the fixture of that name, and those that it needs, to what is made."""
    if name in made:
        return
    if name in FIXTURES:
        made[name] = FIXTURES[name](stack)
        return
    fixture = inspect.unwrap(vars(module)[name])
    for other in _needs(fixture):
        _make(other, module, made, stack)
    value = fixture(**{other: made[other] for other in _needs(fixture)})
    is_stepwise = inspect.isgeneratorfunction(fixture)
    made[name] = stack.enter_context(contextmanager(lambda: value)()) if is_stepwise else value


def _needs(function: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(function).parameters)


def _parameters(test: Callable[..., None]) -> Iterator[dict[str, Any]]:
    marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
    for chosen in product(*(list(_sets(*mark.args[:2])) for mark in marks)):
        yield {name: value for one in chosen for name, value in one.items()}


def _sets(names: str | list[str], values: Any) -> Iterator[dict[str, Any]]:
    """The sets of one mark."""
    listed = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    for value in values:
        plain = getattr(value, "values", value) if type(value).__name__ == "ParameterSet" else value
        one = type(value).__name__ == "ParameterSet" and len(listed) == 1
        yield dict(zip(listed, plain if len(listed) > 1 or one else (plain,), strict=True))
