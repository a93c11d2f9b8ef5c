"""Operators of one step as integer coefficients: quanta of 2^-20 ns per token, per weight read, per message."""

from __future__ import annotations

from dataclasses import dataclass

from backends.sim.costs.assumptions import Assumptions
from backends.sim.specs.hardware import HardwareSpec
from schedlab.pace import QUANTA_PER_NS

QUANTA_PER_S = 10**9 * QUANTA_PER_NS


@dataclass(frozen=True, slots=True)
class Rates:
    """What the hardware reaches per second, times 100 so that percentages stay whole numbers."""

    gemm_flops: int
    attention_flops: int
    hbm_bytes: int
    link_bytes: int

    @classmethod
    def of(cls, hardware: HardwareSpec, assumptions: Assumptions) -> Rates:
        return cls(
            gemm_flops=hardware.peak_flops * assumptions.gemm_percent,
            attention_flops=hardware.peak_flops * assumptions.attention_percent,
            hbm_bytes=hardware.hbm_bandwidth_bytes_per_s * assumptions.hbm_percent,
            link_bytes=hardware.link_bandwidth_bytes_per_s * assumptions.link_percent,
        )


def quanta(amount: int, rate_times_100: int) -> int:
    """Time of *amount* FLOPs or bytes at a rate, rounded up: a positive amount never takes zero time."""
    return -(-amount * 100 * QUANTA_PER_S // rate_times_100)


@dataclass(frozen=True, slots=True)
class Linear:
    """A weight matrix applied to every token of a step, the same in *count* layers.

    Its time is the larger of the arithmetic and of the bytes: weights once, activations in and out once per token.
    """

    flops_per_token: int
    bytes_per_token: int
    weights: int

    @classmethod
    def of(cls, rates: Rates, inputs: int, outputs: int, dtype_bytes: int, count: int = 1) -> Linear:
        return cls(
            flops_per_token=quanta(2 * inputs * outputs * count, rates.gemm_flops),
            bytes_per_token=quanta((inputs + outputs) * dtype_bytes * count, rates.hbm_bytes),
            weights=quanta(inputs * outputs * dtype_bytes * count, rates.hbm_bytes),
        )

    def quanta(self, tokens: int) -> int:
        return max(tokens * self.flops_per_token, self.weights + tokens * self.bytes_per_token)


_ONE = 1 << 64


class Experts:
    """The routed experts of all MoE layers: arithmetic of the chosen experts, weights of those that any token chose.

    With k of E experts chosen per token, independently and evenly, n tokens touch E * (1 - (1 - k/E)^n) of them on
    average. Real routers are less even and touch fewer.
    """

    __slots__ = ("_kept", "_missed", "chosen", "weights")

    def __init__(self, chosen: Linear, experts: int, experts_per_token: int) -> None:
        self.chosen = chosen
        self.weights = chosen.weights
        self._kept = (experts - experts_per_token) * _ONE // experts
        self._missed = [_ONE]

    def quanta(self, tokens: int) -> int:
        read = self.weights * (_ONE - self.missed(tokens)) // _ONE
        return max(tokens * self.chosen.flops_per_token, read + tokens * self.chosen.bytes_per_token)

    def missed(self, tokens: int) -> int:
        """Share of experts that no token chose, in 2^-64; never rises with *tokens*."""
        while len(self._missed) <= tokens and self._missed[-1]:
            self._missed.append(self._missed[-1] * self._kept >> 64)
        return self._missed[tokens] if tokens < len(self._missed) else 0


@dataclass(frozen=True, slots=True)
class AllReduce:
    """*count* ring all-reduces of an activation row per token over *tp* GPUs: 2(tp-1)/tp of it crosses each link."""

    latency: int
    per_token: int

    @classmethod
    def of(cls, rates: Rates, row_bytes: int, tp: int, latency_ns: int, count: int) -> AllReduce:
        if tp == 1:
            return cls(0, 0)
        crossing = -(-2 * (tp - 1) * row_bytes * count // tp)
        return cls(latency_ns * QUANTA_PER_NS * count, quanta(crossing, rates.link_bytes))

    def quanta(self, tokens: int) -> int:
        return self.latency + tokens * self.per_token
