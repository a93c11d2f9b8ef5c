"""One world on the real device in virtual time, and once more on the simulated one with the recorded times."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.torch_needed import torch  # isort: skip

from backends.cuda.device import CudaDevice
from backends.cuda.model import Model
from backends.cuda.seeded import seeded_model, tiny_spec
from backends.cuda.virtual import MeasuredDevice
from backends.sim.clock import SimClock
from backends.sim.device import SimDevice
from backends.sim.outputs import Lengths
from backends.sim.recorded import RecordedDevice
from backends.sim.recording import Recording
from backends.sim.testbed import SimBench, SimTestbed
from experiments.event_log import EventLog
from schedlab.device import DeviceFacts
from schedlab.events import StepDone
from schedlab.memory.spill import SpillStore
from schedlab.testing import Node, Sessions, World

MAX_MODEL_LEN = 1 << 12
MakeDevice = Callable[[SimClock, Lengths, DeviceFacts], SimDevice]


@cache
def tiny_model() -> Model:
    return seeded_model(tiny_spec(MAX_MODEL_LEN), torch.device("cpu"))


class TwinTestbed(SimTestbed):
    """Benches with a device that is not modelled."""

    def __init__(self, make: MakeDevice) -> None:
        super().__init__()
        self._make = make

    def bench(self, world: World, *, leap: bool, breakable: bool = False) -> SimBench:
        outputs = Lengths()
        facts = DeviceFacts(
            "twin", world.num_blocks, block_bytes=world.block_bytes, wants_dense_slots=world.wants_dense_slots
        )
        return SimBench(self._clock, world, outputs, self._make(self._clock, outputs, facts), leap=leap)


@dataclass
class OnReal:
    """A run on the real device: its decision log, how it ended, what was asked, and each request's tokens."""

    log: bytes = b""
    end: str = ""
    recording: Recording = field(default_factory=Recording)
    outputs: dict[int, list[int]] = field(default_factory=dict)

    def on_step_done(self, event: StepDone) -> None:
        for request_id, token in (event.tokens or {}).items():
            self.outputs.setdefault(request_id, []).append(token)


def on_real(world: World, real_class: type[CudaDevice] = CudaDevice, **options: Any) -> OnReal:
    """Run a world on the real device; memory that was never written would show in every output."""
    result = OnReal()
    with ExitStack() as meanwhile:
        folder = Path(meanwhile.enter_context(tempfile.TemporaryDirectory()))
        store = (
            meanwhile.enter_context(SpillStore(0, 1 << 30, folder / "spill")) if world.config.swap_disk_gib else None
        )

        def make(clock: SimClock, outputs: Lengths, facts: DeviceFacts) -> SimDevice:
            real = real_class(tiny_model(), world.config, world.num_blocks, store=store, **options)
            real.kv.fill_(float("nan"))
            meanwhile.callback(real.close)
            return MeasuredDevice(clock, outputs, facts, real, result.recording)

        result.log, result.end = _run(world, make, result, leap=False)
    return result


def on_simulated(world: World, recording: Recording, *, leap: bool) -> tuple[bytes, str]:
    """The decision log, and how it ended. Raises Diverged."""
    made: list[RecordedDevice] = []

    def make(clock: SimClock, outputs: Lengths, facts: DeviceFacts) -> SimDevice:
        made.append(RecordedDevice(clock, outputs, facts, recording))
        return made[0]

    log, end = _run(world, make, leap=leap)
    made[0].reader.check_spent()
    return log, end


def _run(world: World, make: MakeDevice, *observers: object, leap: bool) -> tuple[bytes, str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.jsonl"
        node = Node(TwinTestbed(make), world, leap=leap)
        with EventLog(path) as log:
            for observer in (log, *observers):
                node.core.bus.add(observer)
            node.start()
            Sessions(node, world.sessions)
            end = node.run_to_end()
        return path.read_bytes(), end
