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


def attach(device: SimDevice, core: Scheduler) -> None:
    """Let a device that looks into its scheduler do so, from before the first plan."""
    if isinstance(device, ShadowDevice):
        device.attach(core)
