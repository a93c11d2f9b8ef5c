"""How far the uncalibrated roofline is from a real engine, measured once and said in every report that rests on it."""

from __future__ import annotations

from typing import NamedTuple


class Truth(NamedTuple):
    """Means of a real run and of its replay, in milliseconds."""

    real_ms: float
    simulated_ms: float

    @property
    def error_percent(self) -> int:
        """By how much the replay's mean exceeds the real one."""
        return round(100 * (self.simulated_ms / self.real_ms - 1))


# Written by `python -m experiments.bench.truth_check`; see reports/gallery/truth_check.md.
ROOFLINE: dict[str, Truth] = {}


def sentence() -> str:
    """What a report of the uncalibrated roofline says about itself."""
    shown = ", ".join(f"{name} {truth.error_percent:+d} %" for name, truth in ROOFLINE.items())
    return (
        "times come from the roofline, which is calibrated on no measurement; against a real vLLM 0.19 run of "
        f"Llama-3.1-8B on an RTX PRO 6000 (300 ShareGPT requests, LLMServingSim) its means are off by: {shown}"
    )
