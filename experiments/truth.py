"""How far the uncalibrated roofline is from a real engine, measured once and said in every report that rests on it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

# The profiles published beside the run were measured on the Server Edition; the run's own meta.json names no edition.
EDITIONS = {"RTX PRO 6000": "the Server Edition", "RTX PRO 6000 Workstation": "the Workstation Edition"}
FIGURES = Path(__file__).with_name("truth.json")


class Truth(NamedTuple):
    """Means of a real run and of its replay, in milliseconds."""

    real_ms: float
    simulated_ms: float

    @property
    def error_percent(self) -> float:
        """By how much the replay's mean exceeds the real one, to a tenth."""
        return round(100 * (self.simulated_ms / self.real_ms - 1), 1)


@cache
def figures() -> dict[str, dict[str, Truth]]:
    """By edition of the GPU and by metric, what `python -m experiments.bench.truth_check` has measured and written."""
    document = json.loads(FIGURES.read_text("utf-8"))
    return {hardware: {name: Truth(*pair) for name, pair in means.items()} for hardware, means in document.items()}


def errors(means: Mapping[str, Truth]) -> str:
    """`TTFT -2.4 %, ...`"""
    return ", ".join(f"{name} {truth.error_percent:+.1f} %" for name, truth in means.items())


def sentence() -> str:
    """What a report of the uncalibrated roofline says about itself."""
    off = " and by ".join(f"{errors(figures()[gpu])} with the bandwidth of {title}" for gpu, title in EDITIONS.items())
    return (
        "times come from the roofline, which is calibrated on no measurement; against one real run (vLLM 0.19, "
        "Llama-3.1-8B on an RTX PRO 6000 whose edition the run does not name, 300 ShareGPT requests, published with "
        f"LLMServingSim) its means are off by {off}; on other hardware and models they may be further off"
    )
