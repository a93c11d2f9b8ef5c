"""A cost model of plain constants: for tests, and for asking what a scheduler does apart from any hardware."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backends.sim.costs.base import CostModel
from schedlab.errors import UsageError
from schedlab.pace import QUANTA_PER_NS, ArithmeticPace


class Constant(CostModel):
    """A fixed time per step and, where given, per decode row, per context token of a row and per prefill token.

    All in nanoseconds, fractions allowed (quantised once, here). Raises UsageError unless step_ns is positive and the
    others are not negative.
    """

    def __init__(
        self,
        step_ns: float = 10_000_000,
        per_row_ns: float = 0,
        per_context_token_ns: float = 0,
        per_prefill_token_ns: float = 0,
    ) -> None:
        self._parameters = {
            "step_ns": step_ns,
            "per_row_ns": per_row_ns,
            "per_context_token_ns": per_context_token_ns,
            "per_prefill_token_ns": per_prefill_token_ns,
        }
        quanta = {name: _quantised(name, value) for name, value in self._parameters.items()}
        if quanta["step_ns"] < 1:
            raise UsageError(f"constant cost: step_ns must be positive, got {step_ns}: a step takes time")
        self._step, self._per_row, self._per_context_token, self._per_prefill_token = quanta.values()

    def step_quanta(
        self,
        rows: int,
        context_tokens: int,
        chunks: Sequence[tuple[int, int]] = (),
        windowed_tokens: int | None = None,
    ) -> int:
        decode = self._step + rows * self._per_row + context_tokens * self._per_context_token
        if not chunks:
            return decode
        return decode + self._per_prefill_token * sum(count for _, count in chunks)

    def decode_pace(
        self,
        rows: int,
        context_tokens: int,
        start_quanta: int,
        count: int,
        windowed_tokens: int | None = None,
        windowed_growth: int = 0,
    ) -> ArithmeticPace:
        first = self._step + rows * self._per_row + context_tokens * self._per_context_token
        return ArithmeticPace(start_quanta, count, first, rows * self._per_context_token)

    def describe(self) -> dict[str, Any]:
        return {"name": "constant", "parameters": dict(self._parameters)}


def _quantised(name: str, value_ns: float) -> int:
    if not 0 <= value_ns < 1e18:
        raise UsageError(f"constant cost: {name} must be a finite number of nanoseconds >= 0, got {value_ns}")
    return value_ns << 20 if isinstance(value_ns, int) else round(value_ns * QUANTA_PER_NS)
