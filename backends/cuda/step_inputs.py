"""What one forward pass reads besides weights and KV: a step, packed. Chunks come first, then decode rows."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class PackedChunk(NamedTuple):
    """Tokens `first` .. `first + num_tokens - 1` of the packed step are positions `start` .. of one sequence.

    block_table: [blocks] int64, at least as far as the chunk reaches.
    """

    first: int
    num_tokens: int
    start: int
    block_table: Tensor


class StepInputs(NamedTuple):
    """T packed tokens: those of `chunks`, then one of each of R decode rows.

    token_ids, positions, slots: [T] int64; slots are where keys and values go.
    block_tables: [R, blocks] int64; lengths: [R] int64, this step's token included; longest: at least the largest of
        them.
    sampled: [n] int64, the tokens of the step whose logits are wanted.
    """

    token_ids: Tensor
    positions: Tensor
    slots: Tensor
    chunks: tuple[PackedChunk, ...]
    block_tables: Tensor
    lengths: Tensor
    longest: int
    sampled: Tensor

    @property
    def num_chunk_tokens(self) -> int:
        return sum(chunk.num_tokens for chunk in self.chunks)
