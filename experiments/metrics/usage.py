"""How much of the device a run used: time, iterations, rows and blocks. Sums are integers."""

from __future__ import annotations

from experiments.metrics.growth import block_quanta, grown_blocks
from experiments.metrics.tokens import samples_later_token
from schedlab.events import Arrived, Finished, FirstToken, Preempted, Refused, StepDone
from schedlab.pace import ns_to_quanta
from schedlab.request import FinishReason


class Usage:
    """Observer: counters over the whole run.

    Attributes:
        arrived, refused: requests accepted and refused; every one handed in is one of the two.
        first_arrival_ns: the earliest arrival; None before any.
        last_quanta: the latest end of a step or of a request.
        steps: iterations, so a decode run of k counts k.
        decode_steps, decode_tokens: iterations with decode rows, and the tokens of those.
        output_tokens: all output tokens, the first ones included.
        computed_prefill_tokens: tokens of all chunks, computed again or not.
        busy_quanta: time in steps.
        block_quanta: blocks in use times time, over the busy time.
        last_blocks: blocks in use as the latest step ended.
    """

    def __init__(self) -> None:
        self.arrived = 0
        self.refused = 0
        self.preemptions = 0
        self.first_arrival_ns: int | None = None
        self.last_quanta = 0
        self.steps = 0
        self.decode_steps = 0
        self.decode_tokens = 0
        self._prefill_outputs = 0
        self.computed_prefill_tokens = 0
        self.peak_rows = 0
        self.busy_quanta = 0
        self.block_quanta = 0
        self.peak_blocks = 0
        self.last_blocks = 0

    def on_arrived(self, event: Arrived) -> None:
        self.arrived += 1
        self._note_arrival(event.sequence.request.arrival_ns)

    def on_refused(self, event: Refused) -> None:
        self.refused += 1
        self._note_arrival(event.sequence.request.arrival_ns)

    def on_preempted(self, event: Preempted) -> None:
        self.preemptions += 1

    def on_first_token(self, event: FirstToken) -> None:
        self._prefill_outputs += 1

    def on_finished(self, event: Finished) -> None:
        if event.reason is not FinishReason.REFUSED:
            self.last_quanta = max(self.last_quanta, ns_to_quanta(event.now_ns))

    def on_step_done(self, event: StepDone) -> None:
        pace, rows, blocks = event.pace, event.decode_rows, event.used_blocks
        count, end = pace.count, pace.last_quanta
        busy = end - pace.start_quanta
        self.last_quanta = end
        self.steps += count
        self.busy_quanta += busy
        self.block_quanta += blocks * busy
        if rows:
            self.decode_steps += count
            self.decode_tokens += rows * count
            if rows > self.peak_rows:
                self.peak_rows = rows
        if count > 1:
            grown = grown_blocks(event)
            self.block_quanta += block_quanta(grown, pace)
            blocks += grown[-1]
        self.last_blocks = blocks
        if blocks > self.peak_blocks:
            self.peak_blocks = blocks
        for chunk in event.chunks:
            self.computed_prefill_tokens += chunk.num_tokens
            self._prefill_outputs += samples_later_token(chunk)

    @property
    def output_tokens(self) -> int:
        return self.decode_tokens + self._prefill_outputs

    def _note_arrival(self, arrival_ns: int) -> None:
        if self.first_arrival_ns is None or arrival_ns < self.first_arrival_ns:
            self.first_arrival_ns = arrival_ns
