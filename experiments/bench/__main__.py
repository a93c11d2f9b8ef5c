"""Measure every bar and record it: `python -m experiments.bench [TRACE]` writes reports/gallery/bench.md."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from experiments.bench import scale, speed, startup, waiting

GALLERY = Path("reports/gallery/bench.md")


def machine() -> str:
    """Processor, interpreter and date."""
    cpu = next(
        (line.split(":")[1].strip() for line in _cpu_lines() if line.startswith("model name")), platform.machine()
    )
    return f"{cpu}, Python {platform.python_version()}, {datetime.now(UTC):%Y-%m-%d}"


def _cpu_lines() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


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
