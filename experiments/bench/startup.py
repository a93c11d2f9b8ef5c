"""How long until the command answers: `python -m experiments.bench.startup`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import perf_counter

ROUNDS = 9
SCHEDLAB = str(Path(sys.executable).with_name("schedlab"))
COMMANDS = {
    "import schedlab": [sys.executable, "-c", "import schedlab"],
    "schedlab --help": [SCHEDLAB, "--help"],
    "schedlab replay --help": [SCHEDLAB, "replay", "--help"],
    "python -c pass": [sys.executable, "-c", "pass"],
}


def seconds(command: list[str]) -> float:
    """Median wall time of the command."""
    times = []
    for _ in range(ROUNDS):
        begun = perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(perf_counter() - begun)
    return median(times)


def lines() -> Iterator[str]:
    """The result as rows of a Markdown table."""
    yield "| command | wall time |"
    yield "| --- | ---: |"
    for name, command in COMMANDS.items():
        yield f"| `{name}` | {seconds(command):.2f} s |"


if __name__ == "__main__":
    for line in lines():
        print(line)
