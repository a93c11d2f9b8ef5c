"""How far a run has come, for whoever shows it."""

from __future__ import annotations

from experiments.metrics.tokens import samples_later_token
from schedlab.events import Finished, FirstToken, Refused, StepDone
from schedlab.pace import quanta_to_ns
from schedlab.request import FinishReason


class ProgressState:
    """Observer: ended requests (refused ones too), output tokens, and the simulated time reached."""

    __slots__ = ("ended_requests", "output_tokens", "simulated_ns")

    def __init__(self) -> None:
        self.ended_requests = 0
        self.output_tokens = 0
        self.simulated_ns = 0

    def on_step_done(self, event: StepDone) -> None:
        count = event.pace.count
        self.output_tokens += event.decode_rows * count
        for chunk in event.chunks:
            self.output_tokens += samples_later_token(chunk)
        self.simulated_ns = quanta_to_ns(event.pace.end_quanta(count))

    def on_first_token(self, event: FirstToken) -> None:
        self.output_tokens += 1

    def on_refused(self, event: Refused) -> None:
        self.ended_requests += 1

    def on_finished(self, event: Finished) -> None:
        if event.reason is not FinishReason.REFUSED:
            self.ended_requests += 1
            self.simulated_ns = max(self.simulated_ns, event.now_ns)
