"""What goes wrong on the real device is decided upon by the simulated one as it was."""

from __future__ import annotations

from typing import Any

import pytest

from tests.torch_needed import torch  # isort: skip

from backends.cuda.device import CudaDevice
from schedlab.config import PreemptionMode
from schedlab.device import Step
from schedlab.memory.spill import DiskFull, SpillStore
from tests.models.test_parity_worlds import CROWD, assert_same, fixed
from tests.models.twins import on_real


class Failing(CudaDevice):
    """Fails the forward pass of the steps of those numbers, after it has written keys and values."""

    def __init__(self, *args: Any, failing: dict[int, Exception], **options: Any) -> None:
        super().__init__(*args, **options)
        self.failing = failing
        self.num_steps = 0

    def _run(self, step: Step, ticket: Any) -> None:
        super()._run(step, ticket)
        self.num_steps += 1
        if self.num_steps in self.failing:
            raise self.failing[self.num_steps]


OUT_OF_MEMORY = torch.OutOfMemoryError("out of memory")


@pytest.mark.parametrize("failing", [{1: OUT_OF_MEMORY}, {4: OUT_OF_MEMORY, 9: OUT_OF_MEMORY}, {12: OUT_OF_MEMORY}])
def test_failing_steps(failing: dict[int, Exception]) -> None:
    world = fixed(CROWD)
    real = on_real(world, Failing, failing=failing)
    assert b'"error":"out of memory"' in real.log
    assert_same(world, real)


def test_a_lost_device() -> None:
    world = fixed(CROWD)
    real = on_real(world, Failing, failing={7: torch.AcceleratorError("an illegal memory access")})
    assert real.log.count(b"the device is lost") == len(CROWD)
    assert_same(world, real)


@pytest.mark.parametrize("operation", ["put", "get"])
def test_images_that_the_disk_refuses_or_loses(operation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, ours = [0], getattr(SpillStore, operation)

    def refuse(store: SpillStore, *given: Any) -> Any:
        calls[0] += 1
        if calls[0] % 2:
            raise DiskFull("the disk is full")
        return ours(store, *given)

    monkeypatch.setattr(SpillStore, operation, refuse)
    world = fixed(CROWD, preemption=PreemptionMode.DISK, swap_disk_gib=1)
    real = on_real(world)
    why = b"image lost" if operation == "put" else b"restore failed"
    assert why in real.log
    assert any("the disk is full" in copy.error for copy in real.recording.copies)
    assert_same(world, real)
