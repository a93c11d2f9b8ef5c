"""From options to everything that a run needs, each part checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from backends.sim.costs.base import CostModel
from backends.sim.costs.registry import build_cost
from backends.sim.links import LinkSpec, links_of
from backends.sim.specs.hardware import HardwareSpec, find_hardware
from backends.sim.specs.models import find_model
from backends.sim.specs.shape import ModelShape
from experiments.config import FORMAT, VERSION_KEY, schedlab_version
from experiments.fault_file import parse_plan
from experiments.fault_reach import refuse_idle_faults
from experiments.memory import plan_for, scheduler_for
from experiments.options import ReplayOptions
from experiments.request_maker import TokenLimit
from experiments.workload import Workload, open_workload
from schedlab.config import SchedulerConfig
from schedlab.device import CopyKind
from schedlab.errors import UsageError
from schedlab.fault_plan import FaultPlan
from schedlab.memory.reserve import MemoryPlan
from schedlab.policies.base import Policy
from schedlab.policies.presets import Preset, find_preset
from schedlab.policies.source import policy_sha256


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
    links: Mapping[CopyKind, LinkSpec]
    faults: FaultPlan
    document: dict[str, Any]


def prepare(options: ReplayOptions) -> Setup:
    """Find everything that the options name.

    Raises:
        UsageError: something does not exist, does not fit together, or does not fit into the GPU's memory.
    """
    hardware, model = find_hardware(options.hardware), find_model(options.model)
    model.check_tp(options.tp)
    memory = plan_for(options, hardware, model)
    num_blocks = pool_blocks(options, memory)
    scheduler, policy, parameters = scheduler_for(options, model, memory, num_blocks)
    cost = build_cost(options.cost, hardware, model, options.tp, options.cost_set)
    workload = open_workload(options)
    if scheduler.prefix_cache:
        check_block_size(scheduler, workload)
    links = links_of(hardware.host_link_bandwidth_bytes_per_s)
    faults = parse_plan(options.faults)
    refuse_idle_faults(faults, scheduler, workload.stats.rows)
    limit = TokenLimit.of(options.max_tokens, workload.stats.longest_output_tokens)
    facts = {
        "trace": workload.facts(),
        "model": asdict(model),
        "hardware": asdict(hardware),
        "tp": options.tp,
        **_preset_facts(find_preset(options.preset)),
        "policy": _policy_facts(options, policy, parameters),
        "scheduler": {**asdict(scheduler), "num_blocks": num_blocks},
        "memory": {**asdict(memory), "utilisation_percent": options.utilisation_percent},
        "cost": _cost_facts(cost),
        "links": {kind.value: link._asdict() for kind, link in links.items()},
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
        links,
        faults,
        _document(facts, options),
    )


def check_block_size(scheduler: SchedulerConfig, workload: Workload) -> None:
    """Blocks of the pool must be whole parts or whole multiples of the trace's."""
    ours = scheduler.block_size
    for theirs in workload.stats.hash_block_sizes:
        if theirs % ours and ours % theirs:
            raise UsageError(
                f"block size {ours} and the blocks of {theirs} tokens that {workload.source} names do not divide one "
                f"another; choose --block-size N with N dividing {theirs} or a multiple of it, or --set "
                "prefix_cache=false"
            )


def pool_blocks(options: ReplayOptions, memory: MemoryPlan) -> int:
    """KV blocks of the pool.

    Raises UsageError for more than the memory holds.
    """
    if options.num_blocks is None:
        return memory.num_blocks
    if options.num_blocks > memory.num_blocks:
        raise UsageError(
            f"--num-blocks is {options.num_blocks}, but the memory holds {memory.num_blocks} blocks of "
            f"{memory.block_bytes} bytes; give at most that, or use more GPUs (--tp)"
        )
    return options.num_blocks


def _policy_facts(options: ReplayOptions, policy: Policy, parameters: dict[str, Any]) -> dict[str, Any]:
    digest = policy_sha256(options.policy or policy.name, policy)
    facts = {"name": policy.name, "parameters": parameters}
    return facts if digest is None else {**facts, "sha256": digest}


def _preset_facts(preset: Preset) -> dict[str, Any]:
    return {"preset": preset.name, "preset_source": preset.source}


def _cost_facts(cost: CostModel) -> dict[str, Any]:
    """Name, parameters and sources; the model and the hardware stand on their own."""
    described = cost.describe()
    return {name: value for name, value in described.items() if name not in ("hardware", "model", "tp")}


def _document(facts: dict[str, Any], options: ReplayOptions) -> dict[str, Any]:
    # The options come last: a reader that looks for a budget by its name must find what it was resolved to.
    return {FORMAT: 1, VERSION_KEY: schedlab_version(), **facts, "options": options.as_dict()}
