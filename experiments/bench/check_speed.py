"""Speed of `schedlab check`: `python -m experiments.bench.check_speed` writes reports/gallery/check_speed.md.

A rule is one thing done to the machine's scheduler: requests submitted, one cancelled, up to eight ticks, time that
passes, a fault. All laws hold their watch, and a shadow KV; pools have up to 64 blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from os import cpu_count, getloadavg
from pathlib import Path
from statistics import median
from time import process_time
from typing import NamedTuple

from experiments.bench.machine import machine
from reports.files import replace_file
from schedlab.policies.registry import BUILT_IN

ROUNDS = 3
EXAMPLES = 150
LEAST_RULES_PER_CPU_S = 1000
GALLERY = Path("reports/gallery/check_speed.md")


class Pace(NamedTuple):
    """Medians over rounds of the same examples, per second of CPU time."""

    policy: str
    rules: int
    ticks: int
    rules_per_cpu_s: float
    ticks_per_cpu_s: float


def measure() -> Iterator[Pace]:
    """Each bundled policy, in rounds so that noise of the machine meets all alike."""
    from schedlab.testing.check import check_policy

    seconds: dict[str, list[float]] = {name: [] for name in BUILT_IN}
    done: dict[str, tuple[int, int]] = {}
    for _ in range(ROUNDS):
        for name, policy in BUILT_IN.items():
            begun = process_time()
            tally = check_policy(policy, examples=EXAMPLES).tally
            seconds[name].append(process_time() - begun)
            done[name] = tally.num_rules, tally.num_ticks
    for name, (rules, ticks) in done.items():
        cpu_s = median(seconds[name])
        yield Pace(name, rules, ticks, rules / cpu_s, ticks / cpu_s)


def lines() -> Iterator[str]:
    """The result as rows of a Markdown table."""
    yield "| policy | rules | ticks | rules/s of CPU time | ticks/s of CPU time |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for pace in measure():
        yield (
            f"| {pace.policy} | {pace.rules:,} | {pace.ticks:,} | {pace.rules_per_cpu_s:,.0f} "
            f"| {pace.ticks_per_cpu_s:,.0f} |"
        )


def document() -> Iterator[str]:
    """The whole page, line by line."""
    yield "# Speed of `schedlab check`"
    yield ""
    yield f"`python -m experiments.bench.check_speed` on a shared machine: {machine()}."
    yield (
        f"{EXAMPLES} examples of each bundled policy, with all laws and shadow KV, on pools of up to 64 blocks; "
        f"medians of {ROUNDS} rounds. Bar: at least {LEAST_RULES_PER_CPU_S:,} rules per second of CPU time."
    )
    yield ""
    yield from lines()
    yield ""
    yield f"Others ran beside it: {getloadavg()[1]:.1f} processes wanted one of {cpu_count()} cores at the end."


if __name__ == "__main__":
    text = []
    for line in document():
        print(line, flush=True)
        text.append(line)
    replace_file(GALLERY, ("\n".join(text) + "\n").encode())
