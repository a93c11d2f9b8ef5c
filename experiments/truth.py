"""How far the uncalibrated roofline is from a real engine, measured once and said in every report that rests on it."""

from __future__ import annotations

from typing import NamedTuple


class Truth(NamedTuple):
    """Means of a real run and of its replay, in milliseconds."""

    real_ms: float
    simulated_ms: float

    @property
    def error_percent(self) -> float:
        """By how much the replay's mean exceeds the real one, to a tenth."""
        return round(100 * (self.simulated_ms / self.real_ms - 1), 1)


# Written by `python -m experiments.bench.truth_check`; see reports/gallery/truth_check.md.
ROOFLINE = {
    "TTFT": Truth(7097.2, 6924.9),
    "TPOT": Truth(32.458, 32.391),
    "E2E": Truth(28200.7, 27977.3),
}


def sentence() -> str:
    """What a report of the uncalibrated roofline says about itself."""
    shown = ", ".join(f"{name} {truth.error_percent:+.1f} %" for name, truth in ROOFLINE.items())
    return (
        "times come from the roofline, which is calibrated on no measurement; against one real run (vLLM 0.19, "
        "Llama-3.1-8B on an RTX PRO 6000, 300 ShareGPT requests, published with LLMServingSim) its means are off by "
        f"{shown}; on other hardware and models they may be further off"
    )
