"""Blocks that decode rows take inside a run, from the batch's residues.

Iteration i of a run (0-based) is the batch's step `start_step + i`; the batch itself has moved on when the event comes,
but its rows, and so its residues, are those of the run.
"""

from __future__ import annotations

from itertools import accumulate
from operator import mul

from schedlab.events import StepDone
from schedlab.pace import ArithmeticPace, Pace


def blocks_during(event: StepDone, iteration: int) -> int:
    """Blocks in use during the step's `iteration`-th iteration (0-based), that one's growth included."""
    if iteration == 0:
        return event.used_blocks
    return event.used_blocks + event.batch.growth_blocks(event.start_step + 1 - event.batch.step, iteration)


def grown_blocks(event: StepDone) -> list[int]:
    """For the iterations 1 .. count - 1 of a run, blocks in use beyond those of its first one (iteration 0).

    Costs a few list operations per iteration; each row takes a block in every `block_size` of these.
    """
    batch, inside = event.batch, event.pace.count - 1
    growth = list(map(len, batch.growing_from(event.start_step + 1 - batch.step)))
    if inside > len(growth):
        growth *= inside // len(growth) + 1
    return list(accumulate(growth[:inside]))


def block_quanta(grown: list[int], pace: Pace) -> int:
    """Blocks times quanta of a run's `grown_blocks`."""
    if not isinstance(pace, ArithmeticPace):
        durations = pace.durations()
        next(durations)
        return sum(map(mul, grown, durations))
    total = pace.first * sum(grown)
    return total + pace.growth * sum(map(mul, grown, range(1, pace.count))) if pace.growth else total
