"""A scheduler in the middle of a run."""

from __future__ import annotations

import tempfile
from pathlib import Path

from backends.sim.clock import SimClock
from schedlab.core.scheduler import Scheduler
from tests.property.world import Node, Sessions, World
from tests.unit.shadow_helpers import STEP_NS


def stopped_at(step: int, world: World) -> Scheduler:
    """The scheduler of a world after so many steps."""
    clock = SimClock()
    with tempfile.TemporaryDirectory() as folder:
        node = Node(clock, world, Path(folder) / "events.jsonl", leap=False)
        Sessions(node, world.sessions)
        clock.run(until=step * STEP_NS << 20)
        node.log.close()
    return node.core
