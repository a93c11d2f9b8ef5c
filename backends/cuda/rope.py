"""Rotary angles: what a `config.json` says of them, and the tables of cosines and sines that follow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from backends.sim.specs.hf_fields import Fields

DEFAULT_THETA = 10_000.0
_MOST = 1e30
# Of a blend that begins where it ends.
_LEAST_RAMP = 1e-3
# Positions beyond which float32 does not tell them apart.
_MOST_POSITIONS = 1 << 24


@dataclass(frozen=True, slots=True)
class Linear:
    """All frequencies divided by `factor`."""

    factor: float

    def scaled(self, plain: Tensor, theta: float) -> Tensor:
        return plain / self.factor


@dataclass(frozen=True, slots=True)
class Llama3:
    """Llama 3.1's rule: frequencies whose wavelength exceeds `original_context` / `low_freq_factor` are divided by
    `factor`, those below `original_context` / `high_freq_factor` kept, and blended between.
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_context: int

    def scaled(self, plain: Tensor, theta: float) -> Tensor:
        turns = self.original_context * plain / (2 * math.pi)
        kept = ((turns - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor)).clamp(0, 1)
        return plain * (kept + (1 - kept) / self.factor)


@dataclass(frozen=True, slots=True)
class Yarn:
    """YaRN (Peng et al., arXiv 2309.00071): frequencies that turn more than `beta_fast` times within the
    `original_context` are kept, those that turn fewer than `beta_slow` times divided by `factor`, and blended linearly
    by their index between.

    Attributes:
        truncate: the blend begins and ends at whole indices.
    """

    factor: float
    original_context: int
    beta_fast: float
    beta_slow: float
    truncate: bool

    def scaled(self, plain: Tensor, theta: float) -> Tensor:
        first, last = self._index(self.beta_fast, theta, len(plain)), self._index(self.beta_slow, theta, len(plain))
        if self.truncate:
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, 2 * len(plain) - 1)
        divided = ((torch.arange(len(plain)).float() - first) / max(last - first, _LEAST_RAMP)).clamp(0, 1)
        return plain * (1 - divided) + plain / self.factor * divided

    def _index(self, turns: float, theta: float, num_frequencies: int) -> float:
        """Of the frequency that turns so many times within the original context."""
        return num_frequencies * math.log(self.original_context / (turns * 2 * math.pi)) / math.log(theta)


Scaling = Linear | Llama3 | Yarn


@dataclass(frozen=True, slots=True)
class RopeSpec:
    """Angles of one kind of layer.

    Attributes:
        theta: base of the frequencies theta^(-2i/D).
        attention_factor: cosines and sines are multiplied by it, and so attention scores by its square.
        longest: positions that the scaling was made for; None = as many as the model.
    """

    theta: float = DEFAULT_THETA
    scaling: Scaling | None = None
    attention_factor: float = 1.0
    longest: int | None = None

    def frequencies(self, head_dim: int) -> Tensor:
        """Radians per position, [head_dim / 2] float32."""
        exponents = torch.arange(0, head_dim, 2, dtype=torch.int64).float() / head_dim
        plain = 1.0 / self.theta**exponents
        return plain if self.scaling is None else self.scaling.scaled(plain, self.theta)

    def tables(self, head_dim: int, positions: int) -> Tensor:
        """Cosines and sines of positions 0 .. positions - 1, [2, positions, head_dim] float32, as for `rotate`."""
        angles = torch.arange(positions).float()[:, None] * self.frequencies(head_dim)
        cos, sin = angles.cos() * self.attention_factor, angles.sin() * self.attention_factor
        return torch.stack((torch.cat((cos, cos), -1), torch.cat((-sin, sin), -1)))


def read_ropes(config: Fields) -> tuple[RopeSpec, RopeSpec]:
    """The frequencies of full layers and of windowed ones.

    Raises UsageError for a scaling that is not known.
    """
    parameters = config.get("rope_parameters") or {}
    if not isinstance(parameters, dict):
        raise config.error("rope_parameters", f"must be an object, got {parameters!r}")
    theta = _number(config, config.get("rope_theta", DEFAULT_THETA), "rope_theta")
    if "full_attention" in parameters:
        full = _read(config, parameters["full_attention"], theta, "rope_parameters")
        return full, _read(config, parameters.get("sliding_attention") or {}, theta, "rope_parameters")
    full = _read(config, parameters or config.get("rope_scaling") or {}, theta, "rope_scaling")
    if config.model_type in ("gemma3", "gemma3_text"):
        local = config.get("rope_local_base_freq", DEFAULT_THETA)
        return full, RopeSpec(_number(config, local, "rope_local_base_freq"))
    return full, full


def _read(config: Fields, values: Any, theta: float, field: str) -> RopeSpec:
    if not isinstance(values, dict):
        raise config.error(field, f"must be an object, got {values!r}")
    theta = _number(config, values.get("rope_theta", theta), field)
    share = values.get("partial_rotary_factor", config.get("partial_rotary_factor", 1.0))
    if share != 1:
        raise config.error("partial_rotary_factor", f"is {share!r}; only heads that are rotated whole are computed")
    kind = values.get("rope_type", values.get("type", "default"))
    if kind in ("default", "dynamic"):
        # Dynamic scaling begins beyond `max_position_embeddings`, and so beyond the longest sequence here.
        return RopeSpec(theta)
    if kind == "linear":
        return RopeSpec(theta, Linear(_number(config, values.get("factor"), field)))
    if kind == "llama3":
        return RopeSpec(theta, _llama3(config, values, field))
    if kind == "yarn":
        return _yarn(config, values, theta, field)
    raise config.error(field, f"rope_type {kind!r} is not known; known are default, linear, llama3, yarn and dynamic")


def _llama3(config: Fields, values: dict[str, Any], field: str) -> Llama3:
    factor = _number(config, values.get("factor"), field)
    low, high, original = (
        _number(config, values.get(name), f"{field}.{name}")
        for name in ("low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
    )
    if not low < high:
        raise config.error(field, f"high_freq_factor {high} must be above low_freq_factor {low}")
    return Llama3(factor, low, high, int(original))


def _yarn(config: Fields, values: dict[str, Any], theta: float, field: str) -> RopeSpec:
    """What is left out, or null, has the paper's value."""

    def number(name: str, default: float | None) -> float:
        value = values.get(name)
        return _number(config, default if value is None else value, f"{field}.{name}")

    made_for = config.count("max_position_embeddings")
    original = number("original_max_position_embeddings", made_for)
    factor = number("factor", made_for / original)
    fast, slow = number("beta_fast", 32), number("beta_slow", 1)
    if theta <= 1 or factor < 1 or not slow < fast:
        raise config.error(
            field, f"yarn needs rope_theta above 1, a factor of 1 or more and beta_slow below beta_fast; got {values!r}"
        )
    longest = original * factor
    if longest > _MOST_POSITIONS:
        raise config.error(field, f"a factor of {factor:g} makes {longest:,.0f} positions; at most {_MOST_POSITIONS:,}")
    if values.get("mscale") and values.get("mscale_all_dim"):
        scale = _attention(factor, number("mscale", None)) / _attention(factor, number("mscale_all_dim", None))
    else:
        scale = _attention(factor, 1.0)
    truncate = values.get("truncate", True)
    if not isinstance(truncate, bool):
        raise config.error(f"{field}.truncate", f"must be true or false, got {truncate!r}")
    yarn = Yarn(factor, int(original), fast, slow, truncate)
    return RopeSpec(theta, yarn, number("attention_factor", scale), int(longest))


def _attention(factor: float, scale: float) -> float:
    """The paper's temperature of attention, as a factor of queries and of keys."""
    return 0.1 * scale * math.log(factor) + 1.0


def _number(config: Fields, value: Any, field: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _MOST:
        raise config.error(field, f"must be a positive number, got {value!r}")
    return float(value)
