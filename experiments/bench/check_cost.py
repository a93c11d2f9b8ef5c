"""What does `--check` cost? `python -m experiments.bench.check_cost [TRACE]` writes reports/gallery/check_cost.md.

Runs of a pair, without and with the accounting laws, follow each other at once, so that noise of the machine meets
both alike.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

from experiments.bench.machine import machine
from experiments.bench.speed import Case, cases
from reports.files import replace_file

ROUNDS = 3
MOST_TIMES = 3.0
GALLERY = Path("reports/gallery/check_cost.md")


class Cost(NamedTuple):
    """Medians over pairs of runs, in seconds of CPU time."""

    case: Case
    requests: int
    plain_s: float
    checked_s: float
    times: float


def measure(trace: str) -> Iterator[Cost]:
    """Each load of the trace in turn."""
    import schedlab

    num_blocks = schedlab.replay(trace, limit=1, preset="vllm").config["memory"]["num_blocks"]
    for case in cases(num_blocks):
        pairs = []
        for _ in range(ROUNDS):
            plain = schedlab.replay(trace, **case.options)
            checked = schedlab.replay(trace, check=True, **case.options)
            pairs.append((plain.run["cpu_s"], checked.run["cpu_s"]))
        plain_s, checked_s = (median(column) for column in zip(*pairs, strict=True))
        times = median(one[1] / one[0] for one in pairs)
        yield Cost(case, len(plain.requests), plain_s, checked_s, times)


def lines(trace: str) -> Iterator[str]:
    """The result as rows of a Markdown table."""
    yield "| load | requests | without, CPU s | with `--check`, CPU s | times |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for cost in measure(trace):
        yield (
            f"| {cost.case.name} | {cost.requests:,} | {cost.plain_s:.2f} | {cost.checked_s:.2f} | {cost.times:.2f} |"
        )


def document(trace: str) -> Iterator[str]:
    """The whole page, line by line."""
    yield "# Cost of `--check`"
    yield ""
    yield f"`python -m experiments.bench.check_cost {trace}` on a shared machine: {machine()}."
    yield (
        f"CPU times of `schedlab replay` without and with the accounting laws, leaps on; medians of {ROUNDS} pairs of "
        f"runs. Bar: less than {MOST_TIMES:g} times."
    )
    yield ""
    yield from lines(trace)


if __name__ == "__main__":
    text = []
    for line in document(sys.argv[1] if len(sys.argv) > 1 else "azure-conv-like"):
        print(line, flush=True)
        text.append(line)
    replace_file(GALLERY, ("\n".join(text) + "\n").encode())
