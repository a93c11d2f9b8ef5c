"""Measure every bar and record it: `python -m experiments.bench [TRACE]` writes reports/gallery/bench.md."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from experiments.bench import check_cost, check_speed, scale, speed, startup, waiting
from experiments.bench.machine import machine

GALLERY = Path("reports/gallery/bench.md")


def document(trace: str) -> Iterator[str]:
    """The whole page, line by line."""
    yield "# Speed of the replay"
    yield ""
    yield f"`python -m experiments.bench {trace}` on a shared machine: {machine()}."
    yield "CPU times of one process with all metrics on; medians of several rounds, ratios within one run."
    sections = {
        "One trace, three loads (Llama-3-8B on H100, preset vllm)": lambda: speed.lines(trace),
        "Length of the run (azure-conv-like)": scale.lines,
        "Length of the queue": waiting.lines,
        "Cost of `--check`": lambda: check_cost.lines(trace),
        "Speed of `schedlab check`": check_speed.lines,
        "Start-up": startup.lines,
    }
    for title, lines in sections.items():
        yield f"\n## {title}\n"
        yield from lines()


if __name__ == "__main__":
    text = []
    for line in document(sys.argv[1] if len(sys.argv) > 1 else "azure-conv-like"):
        print(line, flush=True)
        text.append(line)
    GALLERY.write_text("\n".join(text) + "\n", encoding="utf-8")
