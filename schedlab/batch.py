"""The decode batch: one persistent ordered object that changes only when a row joins or leaves."""

from __future__ import annotations

from collections import OrderedDict

from schedlab.sequence import Sequence
from schedlab.windowed import WindowedContext


class DecodeBatch:
    """Rows in joining order, with the aggregates that costs and block needs depend on.

    A row's length is derived, `joined_len + (step - joined_step)`, so an iteration costs nothing per row.
    A row needs a new block before the iteration at which its length is a multiple of `block_size`; rows are kept by
    the residue that decides this, so the needs of a run of any length follow in O(block_size).
    """

    __slots__ = (
        "_context_base",
        "_joins",
        "block_size",
        "far_blocks",
        "last_step_ns",
        "newcomers",
        "residues",
        "rows",
        "step",
        "windowed",
    )

    def __init__(self, block_size: int, window_tokens: int | None = None) -> None:
        self.block_size = block_size
        self.rows: OrderedDict[Sequence, None] = OrderedDict()
        self.residues: list[dict[Sequence, None]] = [{} for _ in range(block_size)]
        self.step = 0
        # Blocks of the rows that are on disk; every iteration reads them.
        self.far_blocks = 0
        self.last_step_ns = 0
        self._context_base = 0
        self._joins = 0
        self.windowed = WindowedContext(window_tokens) if window_tokens is not None else None
        # Rows that joined since the last launch; whoever keeps per-row data learns of them here.
        self.newcomers: list[Sequence] = []

    def __len__(self) -> int:
        return len(self.rows)

    def __contains__(self, sequence: Sequence) -> bool:
        return sequence in self.rows

    @property
    def context_tokens(self) -> int:
        """Sum of the rows' lengths: tokens in the pool before the next iteration writes."""
        return self._context_base + len(self.rows) * self.step

    def length(self, sequence: Sequence) -> int:
        """Computed tokens of a row."""
        return sequence.joined_len + self.step - sequence.joined_step

    def outputs(self, sequence: Sequence) -> int:
        """Output tokens of a row, the newest included."""
        return sequence.joined_len + self.step - sequence.joined_step - sequence.num_prompt_tokens + 1

    def join(self, sequence: Sequence, now_ns: int) -> None:
        """Append a row whose known tokens but the newest are computed."""
        sequence.joined_step = self.step
        sequence.joined_len = sequence.num_computed
        sequence.joined_ns = now_ns
        sequence.row_index = self._joins
        self._joins += 1
        base = sequence.num_computed - self.step
        self._context_base += base
        self.rows[sequence] = None
        self.residues[base % self.block_size][sequence] = None
        self.newcomers.append(sequence)
        if sequence.window is not None:
            self.far_blocks += sequence.window.start
        if self.windowed is not None:
            self.windowed.join(sequence)

    def leave(self, sequence: Sequence) -> None:
        """Remove a row and bring its own counters up to date."""
        base = sequence.joined_len - sequence.joined_step
        del self.rows[sequence]
        if sequence.window is not None:
            self.far_blocks -= sequence.window.start
        if self.windowed is not None:
            self.windowed.leave(sequence)
        del self.residues[base % self.block_size][sequence]
        self._context_base -= base
        sequence.num_computed = base + self.step
        sequence.num_outputs = sequence.num_computed - sequence.num_prompt_tokens + 1
        if self.step > sequence.joined_step:
            sequence.last_token_ns = self.last_step_ns
        elif sequence in self.newcomers:
            # It may have left before a launch that announces it, and may be forgotten by then.
            self.newcomers.remove(sequence)

    def growing(self, iteration: int) -> dict[Sequence, None]:
        """Rows that need a new block before the `iteration`-th iteration from now (0 = the next), in joining order."""
        return self.residues[-(self.step + iteration) % self.block_size]

    def growing_from(self, iteration: int) -> list[dict[Sequence, None]]:
        """`growing` of `block_size` iterations from that one on; after these the same rows come again."""
        first, residues = -(self.step + iteration) % self.block_size, self.residues
        return residues[first::-1] + residues[:first:-1]

    def growth_blocks(self, first: int, count: int) -> int:
        """Blocks that the iterations `first` .. `first + count - 1` from now need together."""
        cycles, rest = divmod(count, self.block_size)
        return cycles * len(self.rows) + sum(map(len, self.growing_from(first)[:rest]))

    def iterations_to_growth(self) -> int:
        """Iterations from the next one on before which no row needs a block but for the first of them."""
        size = self.block_size
        return next((ahead for ahead in range(1, size) if self.residues[-(self.step + ahead) % size]), size)

    def affordable(self, blocks: int, most: int) -> int:
        """The longest run, up to `most`, whose iterations after the next one need at most `blocks` blocks."""
        rows = len(self.rows)
        if rows * ((most - 1) // self.block_size + 1) <= blocks:
            return most
        cycles, blocks = divmod(blocks, rows)
        iterations = 1 + cycles * self.block_size
        for rows_growing in self.growing_from(1):
            blocks -= len(rows_growing)
            if blocks < 0:
                break
            iterations += 1
        return min(iterations, most)

    def oldest_token_ns(self) -> int:
        """When the row that has waited longest got its newest token. The batch must not be empty."""
        first = next(iter(self.rows))
        return self.last_step_ns if first.joined_step < self.step else first.joined_ns
