"""Does a request cost more in a longer run? `python -m experiments.bench.scale` replays 20,000 and 1,000,000."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from statistics import median
from typing import NamedTuple

SHORT, LONG = 20_000, 1_000_000
SHORT_ROUNDS = 5
_CHILD = """
import json, resource, sys
import schedlab
result = schedlab.replay("azure-conv-like", limit=int(sys.argv[1]))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"cpu_s": result.run["cpu_s"], "peak_bytes": peak, "requests": len(result.requests)}))
"""


class Run(NamedTuple):
    """One replay in a process of its own."""

    requests: int
    cpu_s: float
    peak_bytes: int

    @property
    def us_per_request(self) -> float:
        return self.cpu_s / self.requests * 1e6


def run(requests: int) -> Run:
    """Replay that many requests of the modelled Azure conversation trace."""
    command = [sys.executable, "-c", _CHILD, str(requests)]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return Run(answer["requests"], answer["cpu_s"], answer["peak_bytes"])


def lines() -> Iterator[str]:
    """The result as rows of a Markdown table, short runs before and after the long one."""
    before = [run(SHORT) for _ in range(SHORT_ROUNDS)]
    long = run(LONG)
    after = [run(SHORT) for _ in range(SHORT_ROUNDS)]
    short_us = median(one.us_per_request for one in before + after)
    yield "| requests | CPU time a request | of the short run's | peak memory |"
    yield "| ---: | ---: | ---: | ---: |"
    yield f"| {SHORT:,} | {short_us:.0f} us | 1.00x | {before[0].peak_bytes / 1e6:,.0f} MB |"
    yield (
        f"| {LONG:,} | {long.us_per_request:.0f} us | {long.us_per_request / short_us:.2f}x | "
        f"{long.peak_bytes / 1e6:,.0f} MB |"
    )


if __name__ == "__main__":
    for line in lines():
        print(line, flush=True)
