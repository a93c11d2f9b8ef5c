"""What a device with modelled times is, whichever clock it runs on: steps and copies last as the models say."""

from __future__ import annotations

from backends.sim.clock import Clock
from backends.sim.costs.base import CostModel
from backends.sim.links import CopyTicket, Links
from backends.sim.outputs import OutputModel
from schedlab.device import CopyKind, CopyOp, DeviceFacts, Step
from schedlab.pace import ArithmeticPace, Pace, quanta_to_ns, slowed
from schedlab.sequence import Sequence


class ModelledDevice:
    """Times by a cost model and by links, outputs by an output model; who extends it launches steps."""

    def __init__(self, clock: Clock, cost: CostModel, outputs: OutputModel, facts: DeviceFacts, links: Links) -> None:
        self.now_ns = clock.now_ns
        self.cost = cost
        self.outputs = outputs
        self.facts = facts
        self.links = links
        self._no_window: tuple[int | None, int] = (None if cost.window_tokens is None else 0, 0)

    def copy(self, op: CopyOp) -> CopyTicket:
        """Begin a copy on its link when the copies that it names have ended."""
        return self.links.copy(op)

    def move_slot(self, source: int, target: int) -> None:
        """Takes no time here: a slot's state is small beside a step's traffic."""

    def save_state(self, slot: int, snapshot: int, num_tokens: int) -> None:
        """Takes no time here: at the speed of the memory a state of 20 MB is copied in 10 us, a step takes 10 ms."""

    def restore_state(self, snapshot: int, slot: int) -> None:
        """Takes no time here either."""

    def copy_ns(self, kind: CopyKind, num_bytes: int) -> int:
        """Queueing and transfer on the link, as it stands."""
        return self.links.copy_ns(kind, num_bytes)

    def prefill_ns(self, num_tokens: int) -> int:
        """One step of that one chunk."""
        return quanta_to_ns(self.cost.step_quanta(0, 0, [(0, num_tokens)], self._no_window[0]))

    def output_keys(self, sequence: Sequence, first: int, last: int, block_size: int) -> list[int]:
        """Keys that the output model knows of blocks that outputs have filled."""
        return self.outputs.keys(sequence.request_id, first, last, block_size)

    def forget(self, sequence: Sequence) -> None:
        self.outputs.forget(sequence.request_id)

    def pace_of(self, step: Step, start_quanta: int, most: int) -> Pace:
        """When the iterations of a step end, at most `most` of them."""
        batch = step.decode
        rows = len(batch.rows) if batch is not None else 0
        context_tokens = batch.context_tokens if batch is not None else 0
        windowed_tokens, growing_rows = self._no_window
        if batch is not None and batch.windowed is not None:
            windowed_tokens, growing_rows, holds = batch.windowed.sum(rows, batch.step)
            most = min(most, holds)
        pace: Pace
        if step.chunks:
            chunks = [(start, num_tokens) for _, start, num_tokens, _ in step.chunks]
            quanta = self.cost.step_quanta(rows, context_tokens, chunks, windowed_tokens)
            pace = ArithmeticPace(start_quanta, 1, quanta)
        else:
            pace = self.cost.decode_pace(rows, context_tokens, start_quanta, most, windowed_tokens, growing_rows)
        if batch is None or not batch.far_blocks:
            return pace
        # Blocks on disk are read through both links before the rows that need them can go on; nothing overlaps.
        return slowed(pace, self.links.read_quanta(batch.far_blocks * self.facts.block_bytes, start_quanta))
