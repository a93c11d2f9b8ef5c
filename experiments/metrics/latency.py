"""Time between successive output tokens, over all requests."""

from __future__ import annotations

from itertools import islice

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
            self._count_decode(event)

    def _count_resumed(self, event: StepDone) -> None:
        for chunk in event.chunks:
            if samples_later_token(chunk):
                self.histogram.add(event.pace.last_quanta - ns_to_quanta(chunk.sequence.last_token_ns))

    def _count_decode(self, event: StepDone) -> None:
        pace, rows, former = event.pace, event.decode_rows, self._last_decode_quanta
        self._last_decode_quanta = pace.last_quanta
        if pace.count > 1 and not event.newcomers and former == pace.start_quanta:
            self._count_durations(pace, 0, rows)
            return
        first_quanta = pace.end_quanta(1)
        for sequence in event.newcomers:
            self.histogram.add(first_quanta - ns_to_quanta(sequence.last_token_ns))
        self.histogram.add(first_quanta - former, rows - len(event.newcomers))
        if pace.count > 1:
            self._count_durations(pace, 1, rows)

    def _count_durations(self, pace: Pace, begin: int, rows: int) -> None:
        """Count the durations of the iterations from `begin` on, for each row."""
        if isinstance(pace, ArithmeticPace):
            first = pace.first + begin * pace.growth
            self.histogram.add_progression(first, pace.growth, pace.count - begin, rows)
            return
        for duration in islice(pace.durations(), begin, None):
            self.histogram.add(duration, rows)
