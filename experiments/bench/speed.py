"""How many requests a second of CPU time? `python -m experiments.bench.speed [TRACE]`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from statistics import median
from typing import Any, NamedTuple

ROUNDS = 5
# Blocks in a pool of 30 % of what Llama-3-8B leaves on an H100 by the `vllm` preset's plan.
SMALL_POOL_PERCENT = 30


class Case(NamedTuple):
    """One load of the same trace."""

    name: str
    options: dict[str, Any]


class Speed(NamedTuple):
    """Median over rounds."""

    case: str
    requests: int
    requests_per_cpu_s: float
    preemptions: int


def cases(num_blocks: int) -> list[Case]:
    """As recorded, 20 times as dense (a queue builds), and that in a small pool (preemption at work)."""
    return [
        Case("as recorded", {}),
        Case("rate x20", {"rate_scale": 20.0}),
        Case(
            f"rate x20, {SMALL_POOL_PERCENT} % of the pool",
            {"rate_scale": 20.0, "num_blocks": num_blocks * SMALL_POOL_PERCENT // 100},
        ),
    ]


def measure(trace: str) -> Iterator[Speed]:
    """Rounds of all cases in turn, so that noise of the machine meets each alike."""
    import schedlab

    num_blocks = schedlab.replay(trace, limit=1, preset="vllm").config["memory"]["num_blocks"]
    chosen = cases(num_blocks)
    results = [[schedlab.replay(trace, **case.options) for case in chosen] for _ in range(ROUNDS)]
    for index, case in enumerate(chosen):
        rounds = [one[index] for one in results]
        requests = len(rounds[0].requests)
        yield Speed(
            case.name,
            requests,
            requests / median(one.run["cpu_s"] for one in rounds),
            rounds[0].summary["preemptions"],
        )


def lines(trace: str) -> Iterator[str]:
    """The result as rows of a Markdown table."""
    yield "| load | requests | requests/s of CPU time | preemptions |"
    yield "| --- | ---: | ---: | ---: |"
    for speed in measure(trace):
        yield f"| {speed.case} | {speed.requests:,} | {speed.requests_per_cpu_s:,.0f} | {speed.preemptions:,} |"


if __name__ == "__main__":
    for line in lines(sys.argv[1] if len(sys.argv) > 1 else "azure-conv-like"):
        print(line)
