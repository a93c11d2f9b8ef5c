"""Examples of a Hypothesis strategy that follow from a number alone.

Hypothesis itself mixes in constants of whatever modules happen to be imported, and varies examples that it has tried;
so what it draws from a seed is not the same in every process.
"""

from __future__ import annotations

from random import Random
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, PrimitiveProvider

Drawn = TypeVar("Drawn")
BACKEND = "schedlab-seeded"


class SeededProvider(PrimitiveProvider):
    """Uniform choices from one generator. Strategies of unbounded numbers and of texts are not served."""

    lifetime = "test_function"
    seed = 0

    def __init__(self, data: Any, /) -> None:
        super().__init__(data)
        self._random = Random(self.seed)

    def draw_boolean(self, p: float = 0.5) -> bool:
        return self._random.random() < p

    def draw_integer(
        self,
        min_value: int | None = None,
        max_value: int | None = None,
        *,
        weights: dict[int, float] | None = None,
        shrink_towards: int = 0,
    ) -> int:
        assert min_value is not None and max_value is not None
        chosen = self._random.random()
        for value, share in (weights or {}).items():
            chosen -= share
            if chosen < 0:
                return value
        return self._random.randint(min_value, max_value)

    def draw_float(self, **_: Any) -> float:
        raise NotImplementedError

    def draw_string(self, *_: Any, **__: Any) -> str:
        raise NotImplementedError

    def draw_bytes(self, *_: Any) -> bytes:
        raise NotImplementedError


AVAILABLE_PROVIDERS[BACKEND] = f"{__name__}.SeededProvider"


def drawn(strategy: st.SearchStrategy[Drawn], count: int, seed: int) -> list[Drawn]:
    """`count` examples, always the same."""
    found: list[Drawn] = []

    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        backend=BACKEND,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(one: Drawn) -> None:
        found.append(one)

    SeededProvider.seed = seed
    collect()
    return found
