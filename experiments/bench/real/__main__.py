"""Measure the real device on a CPU: `python -m experiments.bench.real` writes reports/gallery/real_device.md."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from experiments.bench.machine import machine
from experiments.bench.real import beside, host
from reports.files import replace_file

GALLERY = Path("reports/gallery/real_device.md")


def arguments() -> argparse.Namespace:
    """Of the command line."""
    parser = argparse.ArgumentParser(prog="python -m experiments.bench.real", description=__doc__)
    parser.add_argument("--chats", type=int, default=64, help="chats of the second load (64)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, of which the median counts (3)")
    parser.add_argument("--threads", type=int, default=2, help="threads of either side (2)")
    chosen = parser.parse_args()
    for name in ("chats", "rounds", "threads"):
        if getattr(chosen, name) < 1:
            parser.error(f"--{name} is {getattr(chosen, name)}; give at least 1")
    return chosen


def document(chosen: argparse.Namespace) -> Iterator[str]:
    """The whole page, line by line."""
    command = f"python -m experiments.bench.real --chats {chosen.chats} --rounds {chosen.rounds}"
    yield "# Speed of the real device"
    yield ""
    yield f"`{command} --threads {chosen.threads}` on a shared machine: {machine()}, torch {version('torch')}."
    yield ""
    yield "## The host's part of a step"
    yield ""
    yield "Plan, step preparation and commit on the scheduler's thread; the forward pass costs nothing."
    yield ""
    yield from host.lines()
    yield ""
    yield f"## SmolLM2-135M in float32 on the CPU, beside transformers {version('transformers')}"
    yield ""
    yield (
        f"Threads of each: {chosen.threads}, in processes of their own that take turns. Rounds: {chosen.rounds}, with "
        "the one stream five times in each; medians. "
        "transformers: `generate` with its KV cache, static padded batches in the order of arrival. Only wanted tokens "
        "count."
    )
    yield ""
    yield from beside.lines(chosen.chats, chosen.rounds, chosen.threads)
    yield ""
    load = ", ".join(f"{average:.1f}" for average in os.getloadavg())
    yield f"Load of the machine over the last 1, 5 and 15 minutes: {load}, on {os.cpu_count()} CPUs."


if __name__ == "__main__":
    text = []
    for line in document(arguments()):
        print(line, flush=True)
        text.append(line)
    replace_file(GALLERY, ("\n".join(text) + "\n").encode())
