"""The simulated testbed: schedulers on simulated devices with shadow KV, all on one simulated clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import inf
from typing import Any

from backends.sim.clock import SimClock
from backends.sim.costs.base import CostModel
from backends.sim.costs.constant import Constant
from backends.sim.costs.erratic import Erratic
from backends.sim.costs.roofline import Roofline
from backends.sim.device import SimDevice
from backends.sim.faults import FaultyDevice, FaultyLinks
from backends.sim.links import DEFAULT_LINKS, Links, LinkSpec
from backends.sim.outputs import Lengths
from backends.sim.process import SimProcess
from backends.sim.shadow_kv import ShadowDevice
from backends.sim.specs.hardware import find_hardware
from backends.sim.specs.models import find_model
from schedlab.core.scheduler import Scheduler
from schedlab.device import CopyKind, DeviceFacts
from schedlab.errors import UsageError
from schedlab.pace import ns_to_quanta
from schedlab.request import Prompt
from schedlab.testing.world import Cost, World


class SimBench:
    """A scheduler on a simulated device."""

    def __init__(self, clock: SimClock, world: World, outputs: Lengths, device: SimDevice, *, leap: bool) -> None:
        self._clock = clock
        self._outputs = outputs
        self._process: SimProcess | None = None
        self.device = device
        self.core = Scheduler(world.config, world.policy(world.config), self.device, leap=leap)
        if isinstance(self.device, ShadowDevice):
            self.device.attach(self.core)

    @property
    def is_done(self) -> bool:
        return self._process is not None and self._process.done

    def expect(self, request_id: int, output_tokens: int, following: Prompt | None = None) -> None:
        self._outputs.expect(request_id, output_tokens, following)

    def fail_step(self) -> None:
        assert isinstance(self.device, FaultyDevice)
        self.device.fail_now()

    def fail_copy(self, kind: CopyKind) -> None:
        assert isinstance(self.device.links, FaultyLinks)
        self.device.links.fail_next(kind)

    def start(self) -> None:
        self._process = SimProcess(self._clock, self.core, self.device)


class SimTestbed:
    """One simulated clock and its benches.

    Args:
        device_class: what executes the steps; the shadow device compares every output with that of the request alone.
    """

    def __init__(self, device_class: type[SimDevice] = ShadowDevice) -> None:
        self._clock = SimClock()
        self._device_class = device_class
        self.now_ns = self._clock.now_ns

    def bench(self, world: World, *, leap: bool, breakable: bool = False) -> SimBench:
        outputs = Lengths()
        device = device_of(self._clock, world, outputs, self._device_class, breakable=breakable)
        return SimBench(self._clock, world, outputs, device, leap=leap)

    def call_at(self, at_ns: int, action: Callable[[], None]) -> None:
        self._clock.at_ns(at_ns, lambda _: action())

    @property
    def is_idle(self) -> bool:
        return self._clock.peek() == inf

    def step(self) -> bool:
        if self.is_idle:
            return False
        self._clock.step()
        return True

    def run(self, until_ns: int | None = None) -> None:
        if until_ns is None:
            self._clock.run()
        elif until_ns > self.now_ns():
            self._clock.run(until=ns_to_quanta(until_ns))


def device_of(
    clock: SimClock, world: World, outputs: Lengths, device_class: type[SimDevice], *, breakable: bool
) -> SimDevice:
    """The device of a world, its links and faults included; `breakable` = faults may be added while it runs."""
    cost = cost_of(world.cost)
    facts = DeviceFacts(
        "sim",
        world.num_blocks,
        cost.window_tokens,
        block_bytes=world.block_bytes,
        state_bytes=world.state_bytes,
        wants_dense_slots=world.wants_dense_slots,
    )
    specs = {**DEFAULT_LINKS, **{kind: LinkSpec(*spec) for kind, spec in world.links.items()}}
    if world.faults.is_empty and not breakable:
        return device_class(clock, cost, outputs, facts, Links(clock, specs))
    kind: Any = device_class
    device: SimDevice = _faulty(kind)(
        clock, cost, outputs, facts, FaultyLinks(clock, specs, world.faults), world.faults
    )
    return device


@cache
def _faulty(device_class: Any) -> Any:
    return type(f"Faulty{device_class.__name__}", (FaultyDevice, device_class), {})


def cost_of(cost: Cost) -> CostModel:
    """The cost model that a world names.

    Raises:
        UsageError: there is none of that name, or what its parameters name does not exist.
    """
    given = dict(cost.parameters)
    if cost.name == "constant":
        return Constant(**{name: float(value) if isinstance(value, str) else value for name, value in given.items()})
    if cost.name == "erratic":
        return Erratic(**{name: int(value) for name, value in given.items()})
    if cost.name == "roofline":
        model = find_model(str(given["model"]))
        if "window_tokens" in given:
            model = replace(model, window_tokens=int(given["window_tokens"]))
        return Roofline(find_hardware(str(given["hardware"])), model)
    raise UsageError(f"no cost model {cost.name!r}; choose one of constant, erratic, roofline")
