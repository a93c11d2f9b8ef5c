"""What a step is of, worked out anew: its rows, and a piece of each prompt in progress as far as tokens go."""

from __future__ import annotations

from typing import NamedTuple

from schedlab.core.plan import Lane
from schedlab.core.scheduler import Scheduler
from schedlab.sequence import Sequence, State
from tests.mutants import naive_facts as facts

DECODING = (Lane.DECODE, Lane.CONTINUE_DECODE, Lane.ALL)


class Piece(NamedTuple):
    """A chunk."""

    sequence: Sequence
    start: int
    num_tokens: int
    samples: bool


class NaiveSteps:
    """Follows who has just come in and has a step of its own."""

    def __init__(self, core: Scheduler) -> None:
        self._core = core
        self._starting: list[Sequence] = []

    def begin(self, newcomers: list[Sequence]) -> None:
        self._starting = newcomers

    def step(self, lane: Lane, composed: int) -> tuple[list[Piece], list[Sequence]] | None:
        """Its chunks and rows; None where there are too few blocks for them."""
        core, config = self._core, self._core.config
        rows = facts.rows(core) if lane in DECODING else []
        free = facts.free_blocks(core) - sum(core.batch.length(row) % config.block_size == 0 for row in rows)
        pieces, tokens = list[Piece](), composed
        prompts = facts.prefilling(core) if lane not in (Lane.DECODE, Lane.START) else []
        if lane is Lane.START:
            prompts = [one for one in self._starting if one.state is State.PREFILLING][:1]
            self._starting = [one for one in self._starting if one not in prompts]
            others = [one for one in facts.prefilling(core) if one not in (*prompts, *self._starting)]
            is_alone = not others and not facts.rows(core)
            tokens = config.max_num_batched_tokens
        for one in prompts:
            is_limited = config.max_prefill_tokens and not (lane is Lane.START and is_alone)
            piece = self._piece(one, min(tokens, config.max_prefill_tokens) if is_limited else tokens)
            if tokens <= 0 or piece is None:
                break
            tokens -= piece.num_tokens
            free -= -(-(piece.start + piece.num_tokens) // config.block_size) - len(one.block_table)
            pieces.append(piece)
        return (pieces, rows) if free >= 0 else None

    def _piece(self, one: Sequence, most: int) -> Piece | None:
        config, start = self._core.config, one.num_computed
        left = facts.known(self._core, one) - start
        count = min(left, most)
        if count < left:
            if not config.chunked_prefill:
                return None
            ends = [end for end in range(start + 1, start + count + 1) if end % config.block_size == 0]
            count = ends[-1] - start if ends and config.align_chunks else count
        count = min(left, self._saved_end(one, start, start + count) - start)
        return Piece(one, start, count, count == left)

    def _saved_end(self, one: Sequence, start: int, end: int) -> int:
        """Where they carry a state: first a block below the last boundary of what is known, then at an interval."""
        core, config, size = self._core, self._core.config, self._core.config.block_size
        if core.snapshots is None or not config.snapshot_slots or not config.chunked_prefill:
            return end
        least, most = max(config.snapshot_min_tokens, 1), len(one.keys or ()) * size
        split = (facts.known(core, one) - 1) // size * size - size
        if start < split < end and least <= split <= most:
            end = split
        interval = config.snapshot_interval_blocks * size
        boundaries = [at for at in range(start + 1, end + 1) if interval and at % interval == 0]
        if boundaries and least <= boundaries[-1] <= most:
            end = boundaries[-1]
        return end
