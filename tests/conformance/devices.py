"""The devices that every scenario and every golden log runs on, through the same code.

A device joins by its name here; nothing of a scenario is written for one of them.
"""

from __future__ import annotations

from collections.abc import Callable

from backends.sim.clock import SimClock
from backends.sim.costs.base import CostModel
from backends.sim.device import SimDevice
from backends.sim.links import Links
from backends.sim.outputs import OutputModel
from backends.sim.shadow_kv import ShadowDevice
from schedlab.core.scheduler import Scheduler
from schedlab.device import DeviceFacts

MakeDevice = Callable[[SimClock, CostModel, OutputModel, DeviceFacts, Links], SimDevice]
# The shadow notices every mistake with memory: at its end a request's outputs must be those of its solo run.
DEVICES: dict[str, MakeDevice] = {"sim": SimDevice, "shadow": ShadowDevice}
STRICTEST = "shadow"


def _real(clock: SimClock, cost: CostModel, outputs: OutputModel, facts: DeviceFacts, links: Links) -> SimDevice:
    from tests.models.scenario_device import ScenarioDevice

    return ScenarioDevice(clock, cost, outputs, facts, links)


# The real device with a tiny model, in virtual time. It needs torch, so that `make test-models` runs the scenarios on
# it; `not_on_real` in index.toml lists those that it cannot run, with the reason.
REAL = "cuda"
ALL_DEVICES: dict[str, MakeDevice] = {**DEVICES, REAL: _real}


def make_device(name: str) -> MakeDevice:
    """What makes the device of that name; a test may have put its own into `DEVICES`."""
    return {**ALL_DEVICES, **DEVICES}[name]


def attach(device: SimDevice, core: Scheduler) -> None:
    """Let a device that looks into its scheduler do so, from before the first plan."""
    if hasattr(device, "attach"):
        device.attach(core)


def release(device: SimDevice) -> None:
    """Let a device that owns threads or files end them."""
    if hasattr(device, "close"):
        device.close()
