"""Time between successive output tokens, over all requests."""

from __future__ import annotations

from experiments.metrics.histogram import LogHistogram
from experiments.metrics.tokens import samples_later_token
from schedlab.events import StepDone
from schedlab.pace import ArithmeticPace, Pace, ns_to_quanta


class TokenGaps:
    """Observer: a histogram, in quanta, of the gaps between successive output tokens of a request.

    A request with n outputs has n - 1 gaps, whatever became of it in between: the gap over a preemption reaches from
    the last token before it to the token sampled at the end of the re-prefill. Cost per step: its newcomers, its chunks
    and the buckets that its durations span.
    """

    __slots__ = ("_last_decode_quanta", "histogram")

    def __init__(self) -> None:
        self.histogram = LogHistogram()
        self._last_decode_quanta = 0

    def on_step_done(self, event: StepDone) -> None:
        if event.chunks:
            self._count_resumed(event)
        if event.decode_rows:
            self._count_decode(event.pace, event)

    def _count_resumed(self, event: StepDone) -> None:
        for chunk in event.chunks:
            if samples_later_token(chunk):
                end = event.pace.end_quanta(event.pace.count)
                self.histogram.add(end - ns_to_quanta(chunk.sequence.last_token_ns))

    def _count_decode(self, pace: Pace, event: StepDone) -> None:
        count, left = pace.count, event.decode_rows
        end_of_first = pace.end_quanta(1)
        add = self.histogram.add
        for sequence in reversed(event.batch.rows):
            if sequence.joined_step != event.start_step:
                break
            add(end_of_first - ns_to_quanta(sequence.joined_ns))
            left -= 1
        add(end_of_first - self._last_decode_quanta, left)
        self._last_decode_quanta = end_of_first if count == 1 else pace.end_quanta(count)
        if count == 1:
            return
        if isinstance(pace, ArithmeticPace):
            self.histogram.add_progression(pace.first + pace.growth, pace.growth, count - 1, event.decode_rows)
            return
        durations = pace.durations()
        next(durations)
        for duration in durations:
            add(duration, event.decode_rows)
