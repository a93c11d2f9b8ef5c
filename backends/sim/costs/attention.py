"""Attention over the paged KV: reading it, and the arithmetic of a prefill chunk, in quanta of 2^-20 ns."""

from __future__ import annotations

from collections.abc import Sequence

from backends.sim.costs.operators import Rates, quanta
from backends.sim.specs.shape import ModelShape

# One query-key pair takes less than a quantum on small models; 12 more bits keep its rounding below 0.1 %.
_PAIR_SHIFT = 12


class Attention:
    """*layers* attention layers on each of *tp* GPUs, over the whole context or the last *window* tokens of it.

    Grouped queries: KV bytes count the GPU's KV heads, arithmetic its query heads. `per_token` is the time of one
    context token of one decode row: the larger of its bytes and its arithmetic, so decode attention is linear.
    """

    __slots__ = ("_pair", "_read", "per_token", "window")

    def __init__(self, rates: Rates, model: ModelShape, tp: int, layers: int, window: int | None = None) -> None:
        kv_bytes = 2 * model.kv_heads_per_gpu(tp) * model.head_dim * model.dtype_bytes * layers
        pair_flops = 4 * (model.heads // tp) * model.head_dim * layers
        self.window = window
        self._read = quanta(kv_bytes, rates.hbm_bytes)
        self._pair = quanta(pair_flops << _PAIR_SHIFT, rates.attention_flops)
        self.per_token = max(self._read, -(-self._pair >> _PAIR_SHIFT))

    def chunks_quanta(self, chunks: Sequence[tuple[int, int]]) -> int:
        """Prefill chunks (start, count): causal arithmetic against reading the KV they see, chunk by chunk."""
        total = 0
        for start, count in chunks:
            if self.window is None:
                pairs, seen = count * start + (count * (count + 1) >> 1), start + count
            else:
                pairs, seen = windowed_pairs(start, count, self.window), min(start + count, self.window + count - 1)
            arithmetic = pairs * self._pair >> _PAIR_SHIFT
            read = seen * self._read
            total += arithmetic if arithmetic > read else read
        return total


def windowed_pairs(start: int, count: int, window: int) -> int:
    """Query-key pairs of a chunk when a token sees itself and at most window - 1 before it."""
    growing = min(max(window - start, 0), count)
    return growing * start + (growing * (growing + 1) >> 1) + (count - growing) * window
