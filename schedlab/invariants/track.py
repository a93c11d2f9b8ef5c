"""What the checker counts of one request, apart from what the scheduler counts."""

from __future__ import annotations

from schedlab.device import Chunk
from schedlab.law import Law, When
from schedlab.memory.window import Window
from schedlab.sequence import NOT_YET, Sequence

SEAT_START = Law(
    "a_seat_starts_behind_whole_cached_blocks",
    "A request that gets a seat starts behind what the prefix cache has of it: whole blocks, and never its last token.",
    When.EVENT,
    numbers=(22, 52),
)
TILES = Law(
    "chunks_tile_the_known_tokens",
    "Each prefill chunk begins where the one before it ended; the last ends with the last known token and samples.",
    When.EVENT,
    numbers=(30, 48),
    scenarios=(5,),
)
OUTPUTS = Law(
    "outputs_are_counted",
    "A request ends with exactly the outputs that its steps produced, and with at most max_tokens of them.",
    When.EVENT,
    numbers=(15, 18),
    scenarios=(5, 8),
)
TOKENS = Law(
    "every_token_is_computed_once_and_again_after_preemption",
    "Each token of a request is cached or computed once, and computed again only where preemption lost it.",
    When.EVENT,
    numbers=(51,),
    scenarios=(8,),
)
HITS = Law(
    "hits_are_counted_once",
    "Tokens that the prefix cache spared a request are counted once: those of its first seat apart from later ones.",
    When.EVENT,
    numbers=(22,),
    scenarios=(8,),
)
WINDOWS = Law(
    "windows_only_move_on",
    "Blocks leave a request's window only when they are safe on disk, in order, and never come back.",
    When.SWEEP,
    numbers=(79,),
)

COUNTED = Law(
    "what_happened_is_counted",
    "A request tells how often it was preempted, swapped out and passed over, and counts no more and no less.",
    When.EVENT,
    numbers=(80,),
    scenarios=(8,),
)
STAMPS = Law(
    "times_are_those_of_the_events",
    "A request's times of admission, first token and newest token are those at which they came about.",
    When.EVENT,
    scenarios=(7, 8),
)

NO_ROW = -1


class Track:
    """Tokens computed and sampled for one live request, summed from the steps.

    While it is a row of the decode batch, its counts are those of when it joined, and `joined` says at which iteration
    of all that was: the rest follows, so that a step costs nothing for each row.
    """

    __slots__ = (
        "_computed",
        "_outputs",
        "admitted_ns",
        "cached_tokens",
        "chunks",
        "coming",
        "decoded_tokens",
        "failed",
        "first_cached",
        "first_token_ns",
        "furthest",
        "is_away",
        "joined",
        "last_token_ns",
        "passed",
        "preemptions",
        "prefilled_tokens",
        "returned_cached",
        "sampled",
        "seats",
        "swaps",
        "unpublished",
        "window",
    )

    def __init__(self) -> None:
        self._computed = 0
        self._outputs = 0
        self.joined = NO_ROW
        self.furthest = 0
        self.cached_tokens = 0
        self.first_cached = 0
        self.returned_cached = 0
        self.prefilled_tokens = 0
        self.decoded_tokens = 0
        self.seats = 0
        # Chunks since it got its seat.
        self.chunks = 0
        # How often a later request was admitted before it.
        self.passed = 0
        self.preemptions = 0
        self.swaps = 0
        self.admitted_ns = self.first_token_ns = self.last_token_ns = NOT_YET
        self.sampled = False
        self.failed = False
        # Is what it has computed in an image only?
        self.is_away = False
        # Blocks that nobody may find, of a request that will end with an error.
        self.unpublished: list[int] = []
        # Blocks whose content a copy is bringing back.
        self.coming: list[int] = []
        self.window: tuple[Window, int, int, int] | None = None

    def outputs(self, iterations: int) -> int:
        """Outputs so far, when the batch has done so many iterations in all."""
        return self._outputs + (iterations - self.joined if self.joined != NO_ROW else 0)

    def computed(self, iterations: int) -> int:
        """Computed tokens so far."""
        return self._computed + (iterations - self.joined if self.joined != NO_ROW else 0)

    def start(self, sequence: Sequence, block_size: int) -> None:
        """It got a seat: it starts behind what the prefix cache has."""
        cached, known = sequence.num_computed, sequence.num_prompt_tokens + self._outputs
        blocks = len(sequence.block_table)
        if self._computed or cached % block_size or cached >= known or cached != blocks * block_size:
            raise SEAT_START.broken(
                f"{sequence} starts at {cached} of {known} tokens with {blocks} blocks", sequence.request_id
            )
        if self.seats:
            self.returned_cached += cached
        else:
            self.first_cached = cached
        self.seats += 1
        self.chunks = 0
        self.cached_tokens += max(cached - self.furthest, 0)
        self._reach(cached)

    def compute(self, chunk: Chunk, now_ns: int) -> None:
        """A chunk was computed."""
        sequence = chunk.sequence
        end = chunk.start + chunk.num_tokens
        known = sequence.num_prompt_tokens + self._outputs
        if chunk.start != self._computed or chunk.num_tokens < 1 or end > known or chunk.samples != (end == known):
            raise TILES.broken(
                f"{sequence}: {chunk.num_tokens} tokens from {chunk.start} (samples: {chunk.samples}), "
                f"{self._computed} of {known} are computed",
                sequence.request_id,
            )
        self.prefilled_tokens += chunk.num_tokens
        self.chunks += 1
        self._reach(end)
        if chunk.samples:
            # The first token has an event of its own; a request may also end without one.
            self.sampled = True
            if self._outputs:
                self._outputs += 1
                self.last_token_ns = now_ns

    def first_token(self, now_ns: int) -> None:
        """Its first output was sampled."""
        self._outputs = 1
        self.first_token_ns = self.last_token_ns = now_ns

    def join(self, iterations: int) -> None:
        """It is a row of the decode batch from the next iteration on."""
        self.joined = iterations

    def leave(self, iterations: int, last_step_ns: int) -> bool:
        """It is no row any more; was it one? `last_step_ns`: when the newest of the iterations had ended."""
        if self.joined == NO_ROW:
            return False
        gained, self.joined = iterations - self.joined, NO_ROW
        if gained:
            self.last_token_ns = last_step_ns
        self.decoded_tokens += gained
        self._outputs += gained
        self._reach(self._computed + gained)
        return True

    def restart(self) -> None:
        """The sequence was preempted: nothing of it is computed any more."""
        self.is_away = False
        self._computed = 0

    def check_totals(self, sequence: Sequence) -> None:
        """At its end."""
        if sequence.num_outputs != self._outputs or self._outputs > sequence.max_outputs:
            raise OUTPUTS.broken(
                f"{sequence}: {sequence.num_outputs} outputs, counted {self._outputs} of {sequence.max_outputs}",
                sequence.request_id,
            )
        computed = self.prefilled_tokens + self.decoded_tokens + self.cached_tokens - sequence.num_recomputed_tokens
        if computed != self.furthest:
            raise TOKENS.broken(
                f"{sequence}: prefill {self.prefilled_tokens} + decode {self.decoded_tokens} + cached "
                f"{self.cached_tokens} - again {sequence.num_recomputed_tokens} = {computed}, reached {self.furthest}",
                sequence.request_id,
            )
        told = sequence.num_cached_tokens, sequence.num_cached_tokens_on_return
        if told != (self.first_cached, self.returned_cached):
            raise HITS.broken(
                f"{sequence} tells of {told} cached tokens (first seat, later ones), counted "
                f"{self.first_cached, self.returned_cached}",
                sequence.request_id,
            )

        counts = sequence.num_preemptions, sequence.num_swaps, sequence.times_bypassed
        if counts != (self.preemptions, self.swaps, self.passed):
            raise COUNTED.broken(
                f"{sequence} tells (preempted, swapped out, passed over) {counts}, counted "
                f"{self.preemptions, self.swaps, self.passed}",
                sequence.request_id,
            )
        stamps = sequence.admitted_ns, sequence.first_token_ns, sequence.last_token_ns
        if stamps != (self.admitted_ns, self.first_token_ns, self.last_token_ns):
            raise STAMPS.broken(
                f"{sequence} tells (admission, first token, newest) {stamps} ns, seen at "
                f"{self.admitted_ns, self.first_token_ns, self.last_token_ns}",
                sequence.request_id,
            )

    def check_window(self, sequence: Sequence) -> None:
        """Its window against what it was when last looked at; a new window begins anew."""
        window = sequence.window
        if window is None:
            self.window = None
            return
        now = (window.start, window.offloaded, window.requested)
        before = self.window[1:] if self.window is not None and self.window[0] is window else (0, 0, 0)
        if list(now) != sorted(now) or any(new < old for new, old in zip(now, before, strict=True)):
            raise WINDOWS.broken(f"{sequence}: (left, safe, begun) {now} blocks after {before}", sequence.request_id)
        self.window = (window, *now)

    def _reach(self, end: int) -> None:
        self._computed = end
        self.furthest = max(self.furthest, end)
