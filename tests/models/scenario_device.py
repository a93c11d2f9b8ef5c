"""The real device as scenarios use it: a tiny model, times of the scenario's cost model, memory that is poisoned."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from tests.torch_needed import torch  # isort: skip

from backends.cuda.device import CudaDevice
from backends.cuda.model import Model
from backends.cuda.seeded import seeded_model, tiny_spec
from backends.cuda.virtual import VirtualDevice
from backends.sim.clock import SimClock
from backends.sim.costs.base import CostModel
from backends.sim.links import Links
from backends.sim.outputs import OutputModel
from schedlab.core.scheduler import Scheduler
from schedlab.device import DeviceFacts
from schedlab.memory.spill import SpillStore

# Scenarios say nothing of the model, so their default is as long as this.
MAX_MODEL_LEN = 1 << 20


@cache
def model() -> Model:
    return seeded_model(tiny_spec(MAX_MODEL_LEN), torch.device("cpu"))


class ScenarioDevice(VirtualDevice):
    """Its real device is made when the scheduler's configuration is known."""

    real: CudaDevice

    def __init__(
        self, clock: SimClock, cost: CostModel, outputs: OutputModel, facts: DeviceFacts, links: Links
    ) -> None:
        super().__init__(clock, cost, outputs, facts, links, None)  # type: ignore[arg-type]
        self._owned = ExitStack()

    def attach(self, core: Scheduler) -> None:
        folder = Path(self._owned.enter_context(tempfile.TemporaryDirectory()))
        store = self._owned.enter_context(SpillStore(0, 1 << 30, folder / "spill"))
        self.real = CudaDevice(model(), core.config, self.facts.num_blocks, store=store)
        self.real.kv.fill_(float("nan"))
        self._owned.callback(self.real.close)

    def close(self) -> None:
        self._owned.close()
