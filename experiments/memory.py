"""The memory plan of a replay: what model, GPU and scheduler ask for, and what to change when it does not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from backends.sim.costs.layers import kernels
from backends.sim.specs.hardware import HardwareSpec
from backends.sim.specs.shape import ModelShape
from experiments.options import ReplayOptions
from schedlab.config import SchedulerConfig
from schedlab.errors import UsageError
from schedlab.memory.reserve import DoesNotFit, MemoryNeeds, MemoryPlan, plan_memory
from schedlab.memory.workspace import graph_bytes, peak_activation_bytes
from schedlab.policies.base import Policy
from schedlab.policies.presets import find_preset
from schedlab.policies.registry import build

_UNKNOWN_POOL_BLOCKS = 1 << 30
# Of a model with recurrent layers and a prefix cache; the default of Metrale Engine 1.0.0-beta-preview.
DEFAULT_SNAPSHOT_SLOTS = 16


def plan_for(options: ReplayOptions, hardware: HardwareSpec, model: ModelShape) -> MemoryPlan:
    """How each GPU's memory is divided for a replay with these options.

    Raises:
        UsageError: the options do not fit together, or not one sequence of `max_model_len` fits into the memory; the
            message then has the numbers and what would fit.
    """
    try:
        return _plan(options, hardware, model)
    except DoesNotFit as short:
        ways = list(_ways_out(options, hardware, model))
        fits = f"it fits with {' or with '.join(ways)}" if ways else "no length, --tp or number of sequences fits"
        what = f"{model.name} does not fit on {options.tp} x {hardware.name}"
        raise UsageError(f"{what}: {short}; {fits}, or use a GPU with more memory") from None


def scheduler_for(
    options: ReplayOptions, model: ModelShape, memory: MemoryPlan | None = None, num_blocks: int = _UNKNOWN_POOL_BLOCKS
) -> tuple[SchedulerConfig, Policy, dict[str, Any]]:
    """The scheduler's configuration, its policy and the policy's parameters for a pool of so many blocks.

    It has as many state snapshots as *memory* has room for; without a plan, as many as are wanted.

    Raises:
        UsageError: an unknown or unfit setting.
    """
    preset = find_preset(options.preset)
    settings = options.settings

    def with_snapshots(slots: int | None) -> tuple[SchedulerConfig, Policy, dict[str, Any]]:
        return build(
            preset,
            preset.policy if options.policy is None else options.policy,
            settings if slots is None else {**settings, "snapshot_slots": str(slots)},
            num_blocks=num_blocks,
            max_model_len=_max_model_len(options, model),
        )

    built = with_snapshots(None)
    if model.recurrent is None:
        _refuse_snapshots(settings, model)
        return built
    slots = built[0].snapshot_slots
    if not slots and (not built[0].prefix_cache or "snapshot_slots" in settings):
        _refuse_rules_for_no_snapshots(settings, built[0])
    if built[0].prefix_cache and "snapshot_slots" not in settings:
        slots = DEFAULT_SNAPSHOT_SLOTS
    return with_snapshots(slots if memory is None else min(slots, memory.snapshot_slots))


def about_snapshots(model: ModelShape, scheduler: SchedulerConfig, wanted_slots: int) -> Iterator[str]:
    """How much of a hybrid's prompts the prefix cache can save."""
    state = f"{model.name} has recurrent layers, whose state the blocks of a prefix do not hold"
    if not scheduler.prefix_cache:
        yield f"every prompt is computed whole: the prefix cache is off; {state}"
    elif not scheduler.snapshot_slots:
        yield f"every prompt is computed whole: {state}, and no state snapshots are kept"
    else:
        yield f"{state}: a prompt skips cached blocks up to one of {scheduler.snapshot_slots:,} state snapshots"
    if scheduler.snapshot_slots < wanted_slots:
        yield f"{wanted_slots:,} state snapshots asked for, {scheduler.snapshot_slots:,} leave KV its floor"


def _refuse_snapshots(settings: dict[str, str], model: ModelShape) -> None:
    for name in settings:
        if name.startswith("snapshot_"):
            raise UsageError(
                f"--set {name}: {model.name} has no recurrent layers, so there is no state to keep; leave it out"
            )


def _refuse_rules_for_no_snapshots(settings: dict[str, str], scheduler: SchedulerConfig) -> None:
    for name in settings:
        if name.startswith("snapshot_") and name != "snapshot_slots":
            why = "snapshot_slots is 0" if scheduler.prefix_cache else "prefix_cache is off"
            raise UsageError(f"--set {name}: {why}, so that no state is ever kept; leave one of them out")


def _max_model_len(options: ReplayOptions, model: ModelShape) -> int:
    text = options.set.get("max_model_len")
    if text is None:
        return model.max_model_len
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= model.max_model_len:
        raise UsageError(
            f"--set max_model_len={text}: give a whole number from 1 to {model.max_model_len}, {model.name}'s longest"
        )
    return int(text)


def _plan(options: ReplayOptions, hardware: HardwareSpec, model: ModelShape) -> MemoryPlan:
    scheduler, tp = scheduler_for(options, model)[0], options.tp
    return plan_memory(
        MemoryNeeds(
            memory_bytes=hardware.memory_bytes,
            weights_bytes=model.weight_bytes(tp),
            activations_bytes=_activations(scheduler, model, tp),
            kv_bytes_per_token=model.kv_bytes_per_token(tp),
            block_size=scheduler.block_size,
            max_model_len=scheduler.max_model_len,
            max_num_seqs=scheduler.max_num_seqs,
            state_bytes_per_seq=model.state_bytes(tp),
            snapshot_slots=scheduler.snapshot_slots,
            graphs_bytes=graph_bytes(kernels(model, tp), scheduler.max_num_seqs),
            utilisation_percent=options.utilisation_percent,
        )
    )


def _activations(scheduler: SchedulerConfig, model: ModelShape, tp: int) -> int:
    recurrent, tokens = model.recurrent, scheduler.max_num_batched_tokens
    return peak_activation_bytes(
        max_num_batched_tokens=tokens,
        max_num_seqs=scheduler.max_num_seqs,
        hidden=model.hidden,
        mlp_width=model.mlp_width,
        vocab=model.vocab,
        dtype_bytes=model.dtype_bytes,
        tp=tp,
        mlp_matrices=model.mlp_matrices,
        recurrent_width=recurrent.activation_width(tp) if recurrent else 0,
        scan_bytes=recurrent.scan_bytes(tokens, tp) if recurrent else 0,
    )


def _ways_out(options: ReplayOptions, hardware: HardwareSpec, model: ModelShape) -> Iterator[str]:
    """Single changes that make it fit, each planned before it is named."""

    def fits(changed: ReplayOptions) -> bool:
        try:
            _plan(changed, hardware, model)
        except UsageError:
            return False
        return True

    def with_setting(name: str, value: int) -> ReplayOptions:
        return replace(options, set={**options.set, name: str(value)})

    scheduler = scheduler_for(options, model)[0]
    longest = _largest(scheduler.max_model_len - 1, lambda length: fits(with_setting("max_model_len", length)))
    if longest:
        yield f"--set max_model_len={longest}"
    if model.recurrent is not None:
        seats = _largest(scheduler.max_num_seqs - 1, lambda count: fits(with_setting("max_num_seqs", count)))
        if seats:
            yield f"--set max_num_seqs={seats}"
    tp = next((tp for tp in model.tp_degrees() if tp > options.tp and fits(replace(options, tp=tp))), None)
    if tp is not None:
        yield f"--tp {tp}"


def _largest(most: int, holds: Callable[[int], bool]) -> int:
    """The largest of 1..most for which *holds*, which is true up to there; 0 if for none."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low
