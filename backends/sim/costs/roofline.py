"""The roofline: a step's time from data-sheet peaks and the model's shape, operator by operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from backends.sim.costs.assumptions import SOURCES, Assumptions
from backends.sim.costs.attention import Attention
from backends.sim.costs.base import CostModel
from backends.sim.costs.layers import kernels, lm_head, token_operators
from backends.sim.costs.operators import Rates
from backends.sim.costs.recurrence import Recurrence
from backends.sim.specs.hardware import HardwareSpec
from backends.sim.specs.shape import ModelShape
from schedlab.pace import ArithmeticPace, ns_to_quanta


class Roofline(CostModel):
    """host + max(GPU, kernel launches when the step has prefill), where GPU = linear layers + attention + lm_head, and
    in a hybrid the recurrent states.

    Each operator takes the larger of its arithmetic and its memory traffic. Logits are computed for one token of every
    decode row and of every chunk. A decode step is A(rows) + B * context_tokens with whole A and B, so a decode run is
    an arithmetic series. A recurrent state costs the same at every context, so it is part of A.
    """

    def __init__(
        self, hardware: HardwareSpec, model: ModelShape, tp: int = 1, assumptions: Assumptions | None = None
    ) -> None:
        model.check_tp(tp)
        self._described = (hardware, model, tp, assumptions or Assumptions())
        hardware, model, tp, assumed = self._described
        rates = Rates.of(hardware, assumed)
        self._full = Attention(rates, model, tp, model.full_layers)
        self._windowed = Attention(rates, model, tp, model.windowed_layers, model.window_tokens)
        self.window_tokens = model.window_tokens
        self._full_token, self._windowed_token = self._full.per_token, self._windowed.per_token
        self._recurrence = Recurrence(rates, model.recurrent, tp, model.dtype_bytes) if model.recurrent else None
        self._row_state = self._recurrence.per_sequence if self._recurrence else 0
        operators = token_operators(rates, hardware, model, tp)
        busy = ns_to_quanta(kernels(model, tp) * assumed.kernel_ns)
        self._tokens = _Memo(lambda tokens: busy + sum(operator.quanta(tokens) for operator in operators))
        self._logits = _Memo(lm_head(rates, hardware, model, tp))
        self._launches = ns_to_quanta(kernels(model, tp) * assumed.launch_ns)
        self._host = ns_to_quanta(assumed.host_ns)

    def step_quanta(
        self,
        rows: int,
        context_tokens: int,
        chunks: Sequence[tuple[int, int]] = (),
        windowed_tokens: int | None = None,
    ) -> int:
        attention = self._full_token * (context_tokens + rows) + self._row_state * rows
        if self.window_tokens is not None:
            attention += self._windowed_token * (self._required(windowed_tokens) + rows)
        if not chunks:
            return self._host + self._tokens[rows] + self._logits[rows] + attention
        tokens = rows
        for _, count in chunks:
            tokens += count
        attention += self._full.chunks_quanta(chunks)
        if self.window_tokens is not None:
            attention += self._windowed.chunks_quanta(chunks)
        if self._recurrence is not None:
            attention += self._recurrence.chunks_quanta(chunks)
        gpu = self._tokens[tokens] + self._logits[rows + len(chunks)] + attention
        return self._host + (gpu if gpu > self._launches else self._launches)

    def decode_pace(
        self,
        rows: int,
        context_tokens: int,
        start_quanta: int,
        count: int,
        windowed_tokens: int | None = None,
        windowed_growth: int = 0,
    ) -> ArithmeticPace:
        first = self._host + self._tokens[rows] + self._logits[rows]
        first += self._full_token * (context_tokens + rows) + self._row_state * rows
        growth = self._full_token * rows
        if self.window_tokens is not None:
            first += self._windowed_token * (self._required(windowed_tokens) + rows)
            growth += self._windowed_token * windowed_growth
        return ArithmeticPace(start_quanta, count, first, growth)

    def describe(self) -> dict[str, Any]:
        hardware, model, tp, assumed = self._described
        return {
            "name": "roofline",
            "hardware": asdict(hardware),
            "model": asdict(model),
            "tp": tp,
            "parameters": asdict(assumed),
            "sources": dict(SOURCES),
        }

    def _required(self, windowed_tokens: int | None) -> int:
        if windowed_tokens is None:
            raise ValueError(f"a model with a window of {self.window_tokens} tokens needs windowed_tokens")
        return windowed_tokens


class _Memo(dict[int, int]):
    """A pure function of a small int, computed once for each."""

    def __init__(self, function: Callable[[int], int]) -> None:
        self._function = function

    def __missing__(self, key: int) -> int:
        value = self[key] = self._function(key)
        return value
