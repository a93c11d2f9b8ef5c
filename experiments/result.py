"""What a replay gives: tables, a summary, and the sentences that a reader must see first."""

from __future__ import annotations

import datetime
import platform
from functools import cached_property
from os import cpu_count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from experiments.metrics.summary import Summary
from experiments.notes import notes_of
from experiments.observers import Observers
from experiments.setup import Setup

if TYPE_CHECKING:
    import pandas as pd


class Left(NamedTuple):
    """What a run leaves beside what its observers saw.

    `snapshots` counts what became of them where sequences carry a state; `injected` counts faults, if any were planned.
    `held` is what was verified, if anything was.
    """

    unsent_turns: int
    cached_blocks: int
    evicted_blocks: int
    snapshots: dict[str, int] | None
    injected: dict[str, Any] | None
    held: dict[str, int]


class ReplayResult:
    """One run. Reading a table makes it once.

    Attributes:
        config: all that repeats the run, and what followed from it.
        summary: the same on every repeat. Latencies in milliseconds, shares as 0 to 1.
        run: what a repeat does not give again: wall time, machine, date, what was verified.
        notes: sentences about what the numbers rest on.
        partial: the run was stopped before its end.
        folder: where its files are; None without files.
    """

    def __init__(
        self, setup: Setup, observers: Observers, left: Left, *, partial: bool, wall_s: float, cpu_s: float
    ) -> None:
        self.observers = observers
        self.partial = partial
        self.folder: Path | None = None
        self.config = setup.document
        summary = Summary(observers.requests, observers.gaps, observers.usage, setup.num_blocks, setup.options.slo_s)
        self.summary: dict[str, Any] = {
            "partial": partial,
            "trace_rows": _rows(setup, observers),
            **summary.to_dict(),
            **_memory_under_pressure(setup, observers, summary, left),
            "cut_outputs": {"requests": observers.maker.cut_requests, "tokens": observers.maker.cut_tokens},
            "unsent_turns": left.unsent_turns,
            "refused": list(observers.reasons.refused.values()),
            "failed": list(observers.reasons.failed.values()),
        }
        facts = _run_facts(len(observers.requests), self.summary.get("duration_s", 0.0), wall_s, cpu_s)
        self.run = {**facts, **left.held}
        self.notes = notes_of(setup, self.summary)

    @cached_property
    def requests(self) -> pd.DataFrame:
        """One row per request that ended or was refused; times in nanoseconds, `<NA>` where it did not get so far."""
        return self.observers.requests.to_frame()

    @cached_property
    def timeline(self) -> pd.DataFrame:
        """One row per interval; `t_ns` is its end."""
        return self.observers.timeline.to_frame()

    def report(self, path: str | Path) -> Path:
        """Write the HTML report.

        Raises:
            UsageError: the file cannot be written.
        """
        from reports.html import write_report

        return write_report(path, self.requests, self.timeline, self.summary, self.config, self.run, self.notes)

    def __repr__(self) -> str:
        state = "partial, " if self.partial else ""
        return f"<ReplayResult of {self.config['trace']['name']}: {state}{len(self.observers.requests)} requests>"


def _memory_under_pressure(
    setup: Setup, observers: Observers, summary: Summary, left: Left
) -> dict[str, dict[str, Any]]:
    """The sections about prefix cache, swap and faults, of those that the run had."""
    sections: dict[str, dict[str, Any]] = {}
    scheduler = setup.scheduler
    if scheduler.prefix_cache and setup.workload.stats.has_hash_ids:
        sections["cache"] = summary.cache(left.cached_blocks, left.evicted_blocks)
        if left.snapshots is not None:
            sections["snapshots"] = left.snapshots
    if scheduler.uses_swap:
        sections["swap"] = observers.traffic.to_dict()
    if left.injected is not None:
        sections["faults"] = left.injected
    return sections


def _rows(setup: Setup, observers: Observers) -> dict[str, Any]:
    report = setup.workload.report
    usage = observers.usage
    return {
        "read": report.rows_read,
        "kept": report.rows_kept,
        "dropped": dict(report.dropped),
        "reordered": report.reordered_rows,
        "sent": usage.arrived + usage.refused,
    }


def _run_facts(requests: int, simulated_s: float, wall_s: float, cpu_s: float) -> dict[str, Any]:
    return {
        "wall_s": round(wall_s, 3),
        "cpu_s": round(cpu_s, 3),
        "requests_per_cpu_s": round(requests / cpu_s, 1) if cpu_s else None,
        "speedup": round(simulated_s / wall_s, 1) if wall_s else None,
        "machine": f"{platform.machine()}, {cpu_count()} CPUs, {platform.system()}",
        "python": platform.python_version(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
