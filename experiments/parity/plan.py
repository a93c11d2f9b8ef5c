"""What a parity run is made of, whichever device it is on."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.fault_file import parse_plan
from experiments.fault_reach import refuse_idle_faults
from experiments.options import ReplayOptions
from experiments.request_maker import TokenLimit
from experiments.setup import check_block_size
from experiments.workload import Workload, open_workload
from schedlab.config import SchedulerConfig
from schedlab.errors import UsageError
from schedlab.fault_plan import Departure, FaultPlan
from schedlab.policies.base import Policy
from schedlab.policies.presets import find_preset
from schedlab.policies.registry import build

# A pool that a CPU has room for and that a busy trace fills.
DEFAULT_BLOCKS = 1024


@dataclass(frozen=True, slots=True)
class Plan:
    """A workload and the scheduler for it."""

    options: ReplayOptions
    workload: Workload
    scheduler: SchedulerConfig
    num_blocks: int
    limit: TokenLimit
    departures: tuple[Departure, ...]

    def policy(self) -> Policy:
        """A new one for each run."""
        return _built(self.options, self.scheduler.max_model_len, self.num_blocks)[1]


def prepare(options: ReplayOptions, max_model_len: int) -> Plan:
    """Find everything that the options name; the model is good for `max_model_len` tokens.

    Raises:
        UsageError: something does not exist or does not fit together, or is not for a real device.
    """
    num_blocks = options.num_blocks or DEFAULT_BLOCKS
    scheduler, _ = _built(options, max_model_len, num_blocks)
    workload = open_workload(options)
    if scheduler.prefix_cache:
        check_block_size(scheduler, workload)
    faults = parse_plan(options.faults)
    if faults != FaultPlan(departures=faults.departures):
        raise UsageError("--faults: parity puts no faults into a real device; leave the plan's departures only")
    refuse_idle_faults(faults, scheduler, workload.stats.rows)
    limit = TokenLimit.of(options.max_tokens, workload.stats.longest_output_tokens)
    return Plan(options, workload, scheduler, num_blocks, limit, faults.departures)


def _built(options: ReplayOptions, max_model_len: int, num_blocks: int) -> tuple[SchedulerConfig, Policy]:
    preset = find_preset(options.preset)
    name = preset.policy if options.policy is None else options.policy
    config, policy, _ = build(preset, name, options.settings, num_blocks=num_blocks, max_model_len=max_model_len)
    return config, policy
