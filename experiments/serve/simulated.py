"""`--device sim`: a modelled GPU in real time, with filler text."""

from __future__ import annotations

from backends.sim.costs.registry import build_cost
from backends.sim.filler import Filler, FillerTokenizer
from backends.sim.links import links_of
from backends.sim.paced import PacedDevice
from backends.sim.specs.hardware import find_hardware
from backends.sim.specs.models import find_model
from experiments.memory import plan_for, scheduler_for
from experiments.options import ReplayOptions
from experiments.serve.served import Served
from experiments.setup import pool_blocks
from schedlab.core.scheduler import Scheduler
from schedlab.device import DeviceFacts


def simulated(options: ReplayOptions) -> Served:
    """The scheduler and the modelled device that a replay with these options has.

    Raises UsageError as a replay does.
    """
    hardware, model = find_hardware(options.hardware), find_model(options.model)
    model.check_tp(options.tp)
    memory = plan_for(options, hardware, model)
    num_blocks = pool_blocks(options, memory)
    scheduler, policy, _ = scheduler_for(options, model, memory, num_blocks)
    cost = build_cost(options.cost, hardware, model, options.tp, options.cost_set)
    facts = DeviceFacts(
        hardware.name,
        num_blocks,
        cost.window_tokens,
        block_bytes=memory.block_bytes,
        state_bytes=memory.state_bytes_per_seq,
    )
    device = PacedDevice(cost, Filler(), facts, links_of(hardware.host_link_bandwidth_bytes_per_s))
    gpus = f"{options.tp} x {hardware.name}" if options.tp > 1 else hardware.name
    what = f"filler text; modelled {gpus}, {num_blocks:,} blocks of {scheduler.block_size} tokens"
    return Served(Scheduler(scheduler, policy, device, leap=False), device, FillerTokenizer(), model.name, what)
