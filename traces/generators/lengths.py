"""Length models. Each gives an endless stream of chunks: prompt tokens (>= 1) and output tokens (>= 0) of as many
requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from schedlab.errors import UsageError
from traces.generators.normal import CHUNK_ROWS, Floats, correlated_scores, uniform_of
from traces.generators.params import Parameters, between, check_correlation, check_table

Tokens = NDArray[np.int64]
_LONGEST_TOKENS = 1 << 30


class Lengths(Protocol):
    """How long prompts and outputs are."""

    def params(self) -> dict[str, object]:
        """Everything that decides the stream but the seed, as JSON values."""

    def chunks(self, rng: np.random.Generator) -> Iterator[tuple[Tokens, Tokens]]:
        """Prompt and output tokens, `CHUNK_ROWS` at a time, for ever."""


def whole_tokens(values: Floats, lowest: int) -> Tokens:
    """Rounded to whole tokens, not below `lowest`."""
    return np.clip(np.rint(values), lowest, _LONGEST_TOKENS).astype(np.int64)


def _check_longest(*tokens: int) -> None:
    if max(tokens) > _LONGEST_TOKENS:
        raise UsageError(f"lengths of {max(tokens)} tokens: give at most {_LONGEST_TOKENS}")


@dataclass(frozen=True)
class Fixed(Parameters):
    """Every request the same."""

    prompt_tokens: int
    output_tokens: int
    kind: ClassVar[str] = "fixed"

    def __post_init__(self) -> None:
        if self.prompt_tokens < 1 or self.output_tokens < 0:
            raise UsageError(
                f"fixed lengths {self.prompt_tokens},{self.output_tokens}: at least 1 prompt token and 0 output tokens"
            )
        _check_longest(self.prompt_tokens, self.output_tokens)

    def chunks(self, rng: np.random.Generator) -> Iterator[tuple[Tokens, Tokens]]:
        pair = np.full(CHUNK_ROWS, self.prompt_tokens), np.full(CHUNK_ROWS, self.output_tokens)
        while True:
            yield pair


@dataclass(frozen=True)
class Uniform(Parameters):
    """Every length in a range as likely as any other, both ends included."""

    prompt_low: int
    prompt_high: int
    output_low: int
    output_high: int
    kind: ClassVar[str] = "uniform"

    def __post_init__(self) -> None:
        if not (1 <= self.prompt_low <= self.prompt_high and 0 <= self.output_low <= self.output_high):
            raise UsageError("uniform lengths: low must not be above high, prompts at least 1, outputs at least 0")
        _check_longest(self.prompt_high, self.output_high)

    def chunks(self, rng: np.random.Generator) -> Iterator[tuple[Tokens, Tokens]]:
        while True:
            prompts = rng.integers(self.prompt_low, self.prompt_high, CHUNK_ROWS, endpoint=True)
            yield prompts, rng.integers(self.output_low, self.output_high, CHUNK_ROWS, endpoint=True)


@dataclass(frozen=True)
class Lognormal(Parameters):
    """Log-normal lengths given by their medians and the sigma of their logarithms; `correlation` is that of the
    logarithms.
    """

    prompt_median: float
    prompt_sigma: float
    output_median: float
    output_sigma: float
    correlation: float = 0.0
    kind: ClassVar[str] = "lognormal"

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if name.endswith("sigma"):
                between(name, value, 1e-9, 100.0)
            elif name.endswith("median"):
                between(name, value, 1e-3, _LONGEST_TOKENS)
        check_correlation(self.correlation)

    def chunks(self, rng: np.random.Generator) -> Iterator[tuple[Tokens, Tokens]]:
        while True:
            first, second = correlated_scores(rng, self.correlation)
            prompts = self.prompt_median * np.exp(np.minimum(first * self.prompt_sigma, 50.0))
            outputs = self.output_median * np.exp(np.minimum(second * self.output_sigma, 50.0))
            yield whole_tokens(prompts, 1), whole_tokens(outputs, 0)


@dataclass(frozen=True)
class Quantiles(Parameters):
    """Lengths from quantile tables over the same probabilities, joined by a Gaussian copula with this correlation."""

    probabilities: tuple[float, ...]
    prompt_tokens: tuple[float, ...]
    output_tokens: tuple[float, ...]
    correlation: float = 0.0
    kind: ClassVar[str] = "quantiles"

    def __post_init__(self) -> None:
        check_table(self.probabilities, self.prompt_tokens)
        check_table(self.probabilities, self.output_tokens)
        check_correlation(self.correlation)

    def chunks(self, rng: np.random.Generator) -> Iterator[tuple[Tokens, Tokens]]:
        while True:
            first, second = correlated_scores(rng, self.correlation)
            prompts = np.interp(uniform_of(first), self.probabilities, self.prompt_tokens)
            outputs = np.interp(uniform_of(second), self.probabilities, self.output_tokens)
            yield whole_tokens(prompts, 1), whole_tokens(outputs, 0)
