"""The simulated side: the same plan once more, each step and copy as long as the real one took."""

from __future__ import annotations

from pathlib import Path

from backends.sim.clock import SimClock
from backends.sim.outputs import Lengths
from backends.sim.recorded import RecordedDevice
from backends.sim.recording import Diverged, Recording
from experiments.parity.plan import Plan
from experiments.parity.run import run
from experiments.watch import Show
from schedlab.device import DeviceFacts


def repeat(plan: Plan, recording: Recording, facts: DeviceFacts, log: Path, show: Show) -> Diverged | None:
    """Run the plan on the simulated device; the question in which it departs from the recording, if it does.

    Decode steps are repeated in closed form, as in a replay.
    """
    made: list[RecordedDevice] = []

    def make(clock: SimClock, outputs: Lengths) -> RecordedDevice:
        made.append(RecordedDevice(clock, outputs, facts, recording))
        return made[0]

    try:
        run(plan, make, log, show, leap=True)
        made[0].reader.check_spent()
    except Diverged as diverged:
        return diverged
    return None
