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


@dataclass(frozen=True, slots=True)
class RopeSpec:
    """Frequencies of one kind of layer.

    Attributes:
        theta: base of the frequencies theta^(-2i/D).
        kind: "default", "linear" (all divided by `factor`), or "llama3" (those whose wavelength exceeds
            `original_context` / `low_freq_factor` divided, those below `original_context` / `high_freq_factor` kept,
            blended between; Llama 3.1's rule).
    """

    theta: float = DEFAULT_THETA
    kind: str = "default"
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_context: int = 8192

    def frequencies(self, head_dim: int) -> Tensor:
        """Radians per position, [head_dim / 2] float32."""
        exponents = torch.arange(0, head_dim, 2, dtype=torch.int64).float() / head_dim
        plain = 1.0 / self.theta**exponents
        if self.kind == "linear":
            return plain / self.factor
        if self.kind == "llama3":
            return self._llama3(plain)
        return plain

    def tables(self, head_dim: int, positions: int) -> Tensor:
        """Cosines and sines of positions 0 .. positions - 1, [2, positions, head_dim] float32, as for `rotate`."""
        angles = torch.arange(positions).float()[:, None] * self.frequencies(head_dim)
        cos, sin = angles.cos(), angles.sin()
        return torch.stack((torch.cat((cos, cos), -1), torch.cat((-sin, sin), -1)))

    def _llama3(self, plain: Tensor) -> Tensor:
        turns = self.original_context * plain / (2 * math.pi)
        kept = ((turns - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor)).clamp(0, 1)
        return plain * (kept + (1 - kept) / self.factor)


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
    if kind == "default":
        return RopeSpec(theta)
    if kind not in ("linear", "llama3"):
        raise config.error(field, f"rope_type {kind!r} is not known; known are default, linear and llama3")
    factor = _number(config, values.get("factor"), field)
    if kind == "linear":
        return RopeSpec(theta, kind, factor)
    low, high, original = (
        _number(config, values.get(name), f"{field}.{name}")
        for name in ("low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
    )
    if not low < high:
        raise config.error(field, f"high_freq_factor {high} must be above low_freq_factor {low}")
    return RopeSpec(theta, kind, factor, low, high, int(original))


def _number(config: Fields, value: Any, field: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _MOST:
        raise config.error(field, f"must be a positive number, got {value!r}")
    return float(value)
