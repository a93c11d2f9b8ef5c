"""From options to everything that a run needs, each part checked before anything runs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from backends.sim.costs.base import CostModel
from backends.sim.costs.registry import build_cost
from backends.sim.specs.hardware import HardwareSpec, find_hardware
from backends.sim.specs.models import find_model
from backends.sim.specs.shape import ModelShape
from experiments.config import FORMAT, VERSION_KEY, schedlab_version
from experiments.options import ReplayOptions
from experiments.request_maker import TokenLimit
from experiments.workload import Workload, open_workload
from schedlab.config import SchedulerConfig
from schedlab.errors import UsageError
from schedlab.memory.reserve import MemoryPlan, peak_activation_bytes, plan_memory
from schedlab.policies.base import Policy
from schedlab.policies.presets import Preset, find_preset
from schedlab.policies.registry import build

_UNKNOWN_POOL_BLOCKS = 1 << 30


@dataclass(frozen=True, slots=True)
class Setup:
    """One run, ready to start; `policy` belongs to it alone.

    Attributes:
        memory: how a GPU's memory is divided; `num_blocks` may be fewer than it holds.
        document: all that repeats the run and what follows from it, as JSON values: `config.json`.
    """

    options: ReplayOptions
    workload: Workload
    hardware: HardwareSpec
    model: ModelShape
    cost: CostModel
    scheduler: SchedulerConfig
    policy: Policy
    memory: MemoryPlan
    num_blocks: int
    limit: TokenLimit
    document: dict[str, Any]


def prepare(options: ReplayOptions) -> Setup:
    """Find everything that the options name.

    Raises:
        UsageError: something does not exist, does not fit together, or does not fit into the GPU's memory.
    """
    hardware, model = find_hardware(options.hardware), find_model(options.model)
    model.check_tp(options.tp)
    preset = find_preset(options.preset)
    policy_name = preset.policy if options.policy is None else options.policy
    max_model_len = _max_model_len(options, model)

    def scheduler_for(num_blocks: int) -> tuple[SchedulerConfig, Policy, dict[str, Any]]:
        return build(preset, policy_name, options.set, num_blocks=num_blocks, max_model_len=max_model_len)

    memory = _plan(options, hardware, model, scheduler_for(_UNKNOWN_POOL_BLOCKS)[0])
    num_blocks = _pool(options, memory)
    scheduler, policy, parameters = scheduler_for(num_blocks)
    cost = build_cost(options.cost, hardware, model, options.tp, options.cost_set)
    workload = open_workload(options)
    limit = TokenLimit.of(options.max_tokens, workload.stats.longest_output_tokens)
    facts = {
        "trace": workload.facts(),
        "model": asdict(model),
        "hardware": asdict(hardware),
        "tp": options.tp,
        **_preset_facts(preset),
        "policy": {"name": policy.name, "parameters": parameters},
        "scheduler": {**asdict(scheduler), "num_blocks": num_blocks},
        "memory": {**asdict(memory), "utilisation_percent": options.utilisation_percent},
        "cost": _cost_facts(cost),
        "max_tokens": limit._asdict(),
        "slo": dict(options.slo),
    }
    return Setup(
        options,
        workload,
        hardware,
        model,
        cost,
        scheduler,
        policy,
        memory,
        num_blocks,
        limit,
        _document(facts, options),
    )


def _max_model_len(options: ReplayOptions, model: ModelShape) -> int:
    text = options.set.get("max_model_len")
    if text is None:
        return model.max_model_len
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= model.max_model_len:
        raise UsageError(
            f"--set max_model_len={text}: give a whole number from 1 to {model.max_model_len}, {model.name}'s longest"
        )
    return int(text)


def _plan(options: ReplayOptions, hardware: HardwareSpec, model: ModelShape, scheduler: SchedulerConfig) -> MemoryPlan:
    activations_bytes = peak_activation_bytes(
        max_num_batched_tokens=scheduler.max_num_batched_tokens,
        max_num_seqs=scheduler.max_num_seqs,
        hidden=model.hidden,
        mlp_width=model.mlp_width,
        vocab=model.vocab,
        dtype_bytes=model.dtype_bytes,
        tp=options.tp,
    )
    try:
        return plan_memory(
            memory_bytes=hardware.memory_bytes,
            weights_bytes=model.weight_bytes(options.tp),
            activations_bytes=activations_bytes,
            kv_bytes_per_token=model.kv_bytes_per_token(options.tp),
            block_size=scheduler.block_size,
            utilisation_percent=options.utilisation_percent,
        )
    except UsageError as error:
        raise UsageError(f"{model.name} does not fit on {options.tp} x {hardware.name}: {error}") from None


def _pool(options: ReplayOptions, memory: MemoryPlan) -> int:
    if options.num_blocks is None:
        return memory.num_blocks
    if options.num_blocks > memory.num_blocks:
        raise UsageError(
            f"--num-blocks is {options.num_blocks}, but the memory holds {memory.num_blocks} blocks of "
            f"{memory.block_bytes} bytes; give at most that, or use more GPUs (--tp)"
        )
    return options.num_blocks


def _preset_facts(preset: Preset) -> dict[str, Any]:
    return {"preset": preset.name, "preset_source": preset.source}


def _cost_facts(cost: CostModel) -> dict[str, Any]:
    """Name, parameters and sources; the model and the hardware stand on their own."""
    described = cost.describe()
    return {name: value for name, value in described.items() if name not in ("hardware", "model", "tp")}


def _document(facts: dict[str, Any], options: ReplayOptions) -> dict[str, Any]:
    # The options come last: a reader that looks for a budget by its name must find what it was resolved to.
    return {FORMAT: 1, VERSION_KEY: schedlab_version(), **facts, "options": options.as_dict()}
