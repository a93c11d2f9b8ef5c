"""What the checker counts of one request, apart from what the scheduler counts."""

from __future__ import annotations

from schedlab.device import Chunk
from schedlab.invariants.violation import violation
from schedlab.sequence import Sequence


class Track:
    """Tokens computed and sampled for one live request, summed from the steps."""

    __slots__ = (
        "cached_tokens",
        "computed",
        "decoded_tokens",
        "failed",
        "furthest",
        "outputs",
        "prefilled_tokens",
        "sampled",
    )

    def __init__(self) -> None:
        self.computed = 0
        self.furthest = 0
        self.outputs = 0
        self.cached_tokens = 0
        self.prefilled_tokens = 0
        self.decoded_tokens = 0
        self.sampled = False
        self.failed = False

    def start(self, sequence: Sequence, block_size: int) -> None:
        """It got a seat: it starts behind what the prefix cache has, whole blocks and never its last token."""
        cached, known = sequence.num_computed, sequence.num_prompt_tokens + self.outputs
        if self.computed or cached % block_size or cached >= known or cached != len(sequence.block_table) * block_size:
            raise violation(
                "a_seat_starts_behind_whole_cached_blocks",
                f"{sequence} starts at {cached} of {known} tokens with {len(sequence.block_table)} blocks",
            )
        self.cached_tokens += max(cached - self.furthest, 0)
        self._reach(cached)

    def compute(self, chunk: Chunk) -> None:
        """A chunk was computed: it begins where the last ended and goes at most to the last known token."""
        sequence = chunk.sequence
        end = chunk.start + chunk.num_tokens
        known = sequence.num_prompt_tokens + self.outputs
        if chunk.start != self.computed or chunk.num_tokens < 1 or end > known or chunk.samples != (end == known):
            raise violation(
                "chunks_tile_the_known_tokens",
                f"{sequence}: {chunk.num_tokens} from {chunk.start} (samples: {chunk.samples}), "
                f"{self.computed} of {known} are computed",
            )
        self.prefilled_tokens += chunk.num_tokens
        self._reach(end)
        if chunk.samples:
            # The first token has an event of its own; a request may also end without one.
            self.sampled = True
            self.outputs += self.outputs > 0

    def decode(self, iterations: int) -> None:
        """The sequence was a row for `iterations` iterations."""
        self.decoded_tokens += iterations
        self.outputs += iterations
        self._reach(self.computed + iterations)

    def restart(self) -> None:
        """The sequence was preempted: nothing of it is computed any more."""
        self.computed = 0

    def check_totals(self, sequence: Sequence) -> None:
        """Law 51: every token is cached or computed once, and computed again where preemption lost it."""
        if sequence.num_outputs != self.outputs or self.outputs > sequence.max_outputs:
            raise violation(
                "outputs_are_counted",
                f"{sequence}: {sequence.num_outputs} outputs, counted {self.outputs} of {sequence.max_outputs}",
            )
        computed = self.prefilled_tokens + self.decoded_tokens + self.cached_tokens - sequence.num_recomputed_tokens
        if computed != self.furthest:
            raise violation(
                "every_token_is_computed_once_and_again_after_preemption",
                f"{sequence}: prefill {self.prefilled_tokens} + decode {self.decoded_tokens} + cached "
                f"{self.cached_tokens} - again {sequence.num_recomputed_tokens} = {computed}, reached {self.furthest}",
            )

    def _reach(self, end: int) -> None:
        self.computed = end
        self.furthest = max(self.furthest, end)
