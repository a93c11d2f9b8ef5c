"""What a run came to, in a few numbers."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.metrics.tokens import samples_later_token
from schedlab.events import Admitted, Finished, FirstToken, Preempted, Refused, Resumed, StepDone, SwappedOut
from schedlab.memory.swap import Tier
from schedlab.pace import quanta_to_ns


@dataclass(slots=True)
class Counts:
    """Observer. `chunked` steps computed a piece of a prompt that was not its last; `mixed` ones had rows beside it.

    Attributes:
        device_ns: steps, without copies beside them.
        cached_tokens: of prompts, found in the prefix cache.
        first_refusal: the request and why; empty if there was none.
    """

    steps: int = 0
    chunked: int = 0
    mixed: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    device_ns: int = 0
    preempted: int = 0
    resumed: int = 0
    to_host: int = 0
    to_disk: int = 0
    cache_hits: int = 0
    cached_tokens: int = 0
    finished: int = 0
    refused: int = 0
    first_refusal: str = ""
    cancelled: int = 0

    def on_admitted(self, event: Admitted) -> None:
        self.cache_hits += event.sequence.num_cached_tokens > 0
        self.cached_tokens += event.sequence.num_cached_tokens

    def on_refused(self, event: Refused) -> None:
        if not self.refused:
            self.first_refusal = f"request {event.sequence.request_id}: {event.reason}"
        self.refused += 1

    def on_preempted(self, event: Preempted) -> None:
        self.preempted += 1

    def on_resumed(self, event: Resumed) -> None:
        self.resumed += 1

    def on_swapped_out(self, event: SwappedOut) -> None:
        self.to_host += event.tier is Tier.HOST
        self.to_disk += event.tier is Tier.DISK

    def on_first_token(self, event: FirstToken) -> None:
        self.output_tokens += 1

    def on_step_done(self, event: StepDone) -> None:
        pace = event.pace
        self.steps += pace.count
        self.device_ns += quanta_to_ns(pace.last_quanta - pace.start_quanta)
        self.output_tokens += pace.count * event.decode_rows + sum(map(samples_later_token, event.chunks))
        self.prompt_tokens += sum(chunk.num_tokens for chunk in event.chunks)
        self.chunked += any(not chunk.samples for chunk in event.chunks)
        self.mixed += bool(event.chunks and event.decode_rows)

    def on_finished(self, event: Finished) -> None:
        self.finished += 1
        self.cancelled += event.reason.value == "cancelled"
