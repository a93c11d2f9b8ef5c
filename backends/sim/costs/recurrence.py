"""The states of recurrent layers: moving them, and the arithmetic of a prefill chunk, in quanta of 2^-20 ns."""

from __future__ import annotations

from collections.abc import Sequence

from backends.sim.costs.operators import Rates, quanta
from backends.sim.specs.recurrent import RecurrentLayers


class Recurrence:
    """All recurrent layers on each of *tp* GPUs.

    `per_sequence`: a step reads and writes the whole state of each sequence in it once, however long its context is.
    A decode row's arithmetic, a few operations per element of the state, hides behind that.
    """

    __slots__ = ("_scan", "per_sequence")

    def __init__(self, rates: Rates, layers: RecurrentLayers, tp: int, dtype_bytes: int) -> None:
        state_bytes = layers.matrix_bytes(tp) + layers.conv_bytes(tp, dtype_bytes)
        self.per_sequence = quanta(2 * state_bytes, rates.hbm_bytes)
        self._scan = quanta(layers.scan_flops_per_token(tp), rates.attention_flops)

    def chunks_quanta(self, chunks: Sequence[tuple[int, int]]) -> int:
        """Prefill chunks (start, count): the scan's arithmetic against moving the state, chunk by chunk."""
        return sum(max(count * self._scan, self.per_sequence) for _, count in chunks)
