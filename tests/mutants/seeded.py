"""Examples of a Hypothesis strategy that follow from a number alone.

Hypothesis itself mixes in constants of whatever modules happen to be imported, and varies examples that it has tried;
so what it draws from a seed is not the same in every process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
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

    def collect(one: Drawn) -> None:
        found.append(one)

    _run(collect, {"one": strategy}, count, seed)
    return found


def draw_again(test: Any, given_beside: Mapping[str, Any], count: int) -> None:
    """Run a test that Hypothesis draws for with `count` examples, always the same; `given_beside` are its fixtures."""
    handle = test.hypothesis
    _run(partial(handle.inner_test, **given_beside), handle._given_kwargs, count, seed=0)


def _run(act: Callable[..., None], strategies: Mapping[str, st.SearchStrategy[Any]], count: int, seed: int) -> None:
    @settings(
        max_examples=count,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        backend=BACKEND,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.fixed_dictionaries(dict(strategies)))
    def once(values: dict[str, Any]) -> None:
        act(**values)

    SeededProvider.seed = seed
    once()
