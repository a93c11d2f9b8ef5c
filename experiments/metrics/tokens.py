"""What a step did that its event tells only indirectly."""

from __future__ import annotations

from schedlab.device import Chunk
from schedlab.events import StepDone


def samples_later_token(chunk: Chunk) -> bool:
    """True if the chunk ends a re-prefill: it covers outputs too, so the token that it samples has a former one."""
    return chunk.samples and chunk.start + chunk.num_tokens > chunk.sequence.num_prompt_tokens


def blocks_by_iteration(event: StepDone) -> list[int]:
    """Blocks handed to decode rows before each iteration of a run but the first, from the batch's residues.

    Iteration i of the run is the batch's step `start_step + i`; the batch itself has moved on since.
    """
    residues = event.batch.residues
    inside = event.pace.count - 1
    rows = list(map(len, residues))
    second = -(event.start_step + 1) % len(rows)
    cycle = rows[second::-1] + rows[:second:-1]
    return (cycle * (inside // len(cycle) + 1))[:inside]


def blocks_during(event: StepDone, iteration: int) -> int:
    """Blocks in use during the step's `iteration`-th iteration (0-based), that one's growth included."""
    if iteration == 0:
        return event.used_blocks
    return event.used_blocks + event.batch.growth_blocks(event.start_step + 1 - event.batch.step, iteration)
