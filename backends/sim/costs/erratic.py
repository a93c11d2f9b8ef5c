"""A cost model without any pattern, for tests of whatever must hold for every cost model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backends.sim.costs.base import CostModel
from schedlab.testing.chance import scrambled


class Erratic(CostModel):
    """Any duration for any step, from a single quantum up to `most_quanta`; with a window or without (0)."""

    def __init__(self, seed: int, most_quanta: int, window_tokens: int = 0) -> None:
        self._seed = seed
        self._most_quanta = most_quanta
        self.window_tokens = window_tokens or None

    def step_quanta(
        self,
        rows: int,
        context_tokens: int,
        chunks: Sequence[tuple[int, int]] = (),
        windowed_tokens: int | None = None,
    ) -> int:
        shape = (token for chunk in chunks for token in chunk)
        return 1 + scrambled(self._seed, rows, context_tokens, windowed_tokens or 0, *shape) % self._most_quanta

    def describe(self) -> dict[str, Any]:
        return {"name": "erratic", "seed": self._seed, "most_quanta": self._most_quanta}
