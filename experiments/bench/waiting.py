"""Does a tick cost more when more requests wait? `python -m experiments.bench.waiting`."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from time import process_time_ns

from backends.sim.clock import SimClock
from backends.sim.costs.constant import Constant
from backends.sim.device import SimDevice
from backends.sim.outputs import Lengths
from backends.sim.process import SimProcess
from schedlab.core.scheduler import Scheduler
from schedlab.device import DeviceFacts
from schedlab.inbox import Delivery, Submit
from schedlab.policies.presets import DEFAULT_PRESET, PRESETS, find_preset
from schedlab.policies.registry import BUILT_IN, build
from schedlab.request import Prompt, Request

FEW, MANY = 100, 100_000
TICKS = 400
ROUNDS = 5
NUM_BLOCKS = 200_000


class Bench:
    """A scheduler with every seat taken and `num_waiting` requests behind, stepped one iteration a tick."""

    def __init__(self, preset_name: str, policy_name: str, num_waiting: int) -> None:
        config, policy, _ = build(
            find_preset(preset_name), policy_name, {}, num_blocks=NUM_BLOCKS, max_model_len=131_072
        )
        self.clock, self.outputs = SimClock(), Lengths()
        device = SimDevice(self.clock, Constant(step_ns=1_000_000), self.outputs, DeviceFacts("sim", NUM_BLOCKS))
        self.core = Scheduler(config, policy, device, leap=False)
        SimProcess(self.clock, self.core, device)
        for index in range(config.max_num_seqs + num_waiting):
            self.outputs.expect(index, 1 << 16)
            request = Request(index, Prompt(16 + index * 7919 % 64), 1 << 16, priority=index * 104_729 % 8)
            self.core.inbox.deliver(Delivery(0, 0, index, Submit(request)))
        while len(self.core.batch) < config.max_num_seqs:
            self.clock.step()

    def tick_ns(self) -> float:
        """CPU time of one tick, averaged over TICKS."""
        until = self.core.batch.step + TICKS
        begun = process_time_ns()
        while self.core.batch.step < until:
            self.clock.step()
        return (process_time_ns() - begun) / TICKS


def ratios() -> Iterator[tuple[str, float, float]]:
    """(rule, CPU ns of a tick with FEW waiting, median over rounds of how many times more it is with MANY)."""
    rules = [(preset, preset_of.policy) for preset, preset_of in PRESETS.items()]
    rules += [(DEFAULT_PRESET, policy) for policy in BUILT_IN if policy != find_preset(DEFAULT_PRESET).policy]
    for preset_name, policy_name in rules:
        few, many = Bench(preset_name, policy_name, FEW), Bench(preset_name, policy_name, MANY)
        rounds = [(few.tick_ns(), many.tick_ns()) for _ in range(ROUNDS)]
        yield f"{preset_name} / {policy_name}", median(a for a, _ in rounds), median(b / a for a, b in rounds)


def lines() -> Iterator[str]:
    """The result as rows of a Markdown table."""
    yield f"| preset / policy | tick with {FEW} waiting | with {MANY:,} waiting |"
    yield "| --- | ---: | ---: |"
    for rule, few_ns, ratio in ratios():
        yield f"| {rule} | {few_ns / 1000:.1f} us | {ratio:.2f}x |"


if __name__ == "__main__":
    for line in lines():
        print(line)
