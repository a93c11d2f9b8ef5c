"""The real side: a model on a GPU or a CPU. The only file of parity that knows torch."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch

from backends.cuda.device import CudaDevice
from backends.cuda.families import read_spec
from backends.cuda.loading import load_model
from backends.cuda.model import Model
from backends.cuda.seeded import seeded_model, tiny_spec
from backends.cuda.sizing import plan_for
from backends.cuda.virtual import MeasuredDevice
from backends.sim.recording import Recording
from experiments.parity.plan import Plan
from experiments.parity.run import Ran, run
from experiments.serve.real import demo_model, find_device, where_of
from experiments.watch import Show
from schedlab.device import DeviceFacts
from schedlab.errors import UsageError
from schedlab.memory.spill import SpillStore
from schedlab.memory.swap import GIB

TINY, DEMO = "tiny", "demo"
_TINY_MODEL_LEN = 1 << 17


class RealSide:
    """A model, loaded: `tiny` and a `config.json` with seeded random weights, `demo`, a folder or a GGUF with its own.

    Args:
        max_model_len: longest sequence; None = what the model was made for.

    Raises UsageError for anything wrong with the model or the device.
    """

    def __init__(self, model: str, device: str, max_model_len: int | None) -> None:
        self._model = _load(model, find_device(device), max_model_len)
        self.what = f"{self._model.spec.name} on {where_of(self._model)}"
        self.max_model_len = self._model.max_model_len

    def run(self, plan: Plan, log: Path, show: Show) -> tuple[Ran, Recording, DeviceFacts]:
        """The plan on the real device in virtual time: what it left, and what a simulated device needs to repeat it.

        Raises:
            UsageError: the plan's blocks do not fit, or its configuration is not served.
            Stalled: work is left that nothing will ever move.
        """
        most = plan_for(self._model, plan.scheduler).num_blocks
        if plan.num_blocks > most:
            raise UsageError(f"--num-blocks is {plan.num_blocks}, but the memory holds {most} blocks")
        recording = Recording()
        with ExitStack() as owned:
            store = owned.enter_context(_disk_tier(plan.scheduler.swap_disk_gib))
            real = CudaDevice(self._model, plan.scheduler, plan.num_blocks, store=store)
            owned.callback(real.close)
            ran = run(
                plan,
                lambda clock, outputs: MeasuredDevice(clock, outputs, real.facts, real, recording),
                log,
                show,
                leap=False,
            )
        return ran, recording, real.facts


@contextmanager
def _disk_tier(gib: int) -> Iterator[SpillStore | None]:
    """A store in a temporary folder."""
    if not gib:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="schedlab-") as folder, SpillStore(0, gib * GIB, Path(folder)) as store:
        yield store


def _load(name: str, device: torch.device, max_model_len: int | None) -> Model:
    if name == TINY:
        # Its steps are too small to be shared among threads.
        torch.set_num_threads(1)
        return seeded_model(tiny_spec(_TINY_MODEL_LEN), device, max_model_len=max_model_len)
    if name == DEMO:
        return load_model(demo_model(), device=device, max_model_len=max_model_len)
    path = Path(name)
    if path.suffix == ".json":
        return seeded_model(read_spec(path), device, max_model_len=max_model_len)
    return load_model(path, device=device, max_model_len=max_model_len)
