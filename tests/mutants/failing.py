"""Attacks by worlds whose device fails: steps, and copies on each link."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from schedlab.config import PreemptionMode
from schedlab.device import CopyKind
from schedlab.fault_plan import CopyFailure, FaultPlan, StepFailure, Which
from tests.mutants.attack import Attack
from tests.mutants.moments import crowd
from tests.mutants.saved import SWAPS
from tests.mutants.worlds import attack_world


def copies_fail(mode: PreemptionMode, kind: CopyKind) -> None:
    """Each of the first copies on a link fails in turn."""
    for number in (1, 2, 4):
        attack_world(crowd(mode, FaultPlan(copy_failures=(CopyFailure(Which((number,)), (kind,)),))))


def steps_fail() -> None:
    """Mixed steps, chunks and runs fail, in a pool that is short of blocks."""
    for first in range(1, 30, 4):
        plan = FaultPlan(step_failures=(StepFailure(Which((first, first + 2, first + 17))),))
        attack_world(crowd(PreemptionMode.RECOMPUTE, plan))


def failing_attacks() -> list[Attack]:
    """All of them."""
    return [Attack(f"made: {steps_fail.__name__}", steps_fail), *_failing_copies()]


def _failing_copies() -> Iterator[Attack]:
    for mode in SWAPS:
        for kind in CopyKind:
            yield Attack(f"made: copies fail, {mode}, {kind}", partial(copies_fail, mode, kind))
