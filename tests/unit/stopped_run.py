"""A scheduler in the middle of a run."""

from __future__ import annotations

from backends.sim.device import SimDevice
from backends.sim.testbed import SimTestbed
from schedlab.core.scheduler import Scheduler
from schedlab.testing import Node, Sessions, World
from tests.unit.shadow_helpers import STEP_NS


def stopped_at(step: int, world: World) -> Scheduler:
    """The scheduler of a world after so many steps."""
    testbed = SimTestbed(SimDevice)
    node = Node(testbed, world, leap=False)
    node.start()
    Sessions(node, world.sessions)
    testbed.run(until_ns=step * STEP_NS)
    return node.core
