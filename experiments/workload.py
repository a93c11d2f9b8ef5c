"""The trace of a replay: opened, cut and scaled as the options say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from experiments.options import ReplayOptions
from schedlab.errors import UsageError
from traces.models import model_path
from traces.open import open_trace
from traces.options import ReadOptions
from traces.record import TraceRecord
from traces.report import ReadReport
from traces.trace import Trace, TraceStats
from traces.transforms import limit, scale_rate
from traces.words import counted


@dataclass(frozen=True, slots=True)
class Workload:
    """A trace as it is replayed.

    Attributes:
        stats: facts of its rows before the rate is scaled, which changes their stamps only.
        report: what happened to the rows of the original.
        title: what to call the trace, before the limit and the rate scale of this run.
    """

    source: str
    trace: Trace
    stats: TraceStats
    report: ReadReport
    title: str

    def records(self) -> Iterator[TraceRecord]:
        """A fresh pass."""
        return self.trace.records()

    def origin(self) -> Iterator[str]:
        """Sentences about where the trace comes from."""
        trace, notes = self.trace, self.report.notes
        if not trace.is_model or self.title != "modelled trace":
            yield f"{self.title}, sha256 {trace.sha256[:12]}…"
        if trace.is_model and not any("modelled" in note for note in notes):
            yield "modelled, not original: its requests were drawn, not recorded"
        yield from notes

    def facts(self) -> dict[str, Any]:
        """What `config.json` says about it."""
        return {
            "source": self.source,
            "name": self.trace.name,
            "sha256": self.trace.sha256,
            "format": self.trace.format,
            "is_model": self.trace.is_model,
            "closed_loop": self.stats.closed_loop,
            "rows": self.stats.rows,
            "prompt_tokens": self.stats.prompt_tokens,
            "output_tokens": self.stats.output_tokens,
            "longest_prompt_tokens": self.stats.longest_prompt_tokens,
            "longest_output_tokens": self.stats.longest_output_tokens,
        }


def open_workload(options: ReplayOptions) -> Workload:
    """Open the trace and read it once.

    Raises:
        UsageError: no such trace, a row that is wrong, no rows at all, or a seed for a trace that draws nothing.
    """
    is_model = model_path(options.trace) is not None
    rows = options.limit if is_model else None
    trace = open_trace(options.trace, options=ReadOptions(rows=rows, seed=options.seed or 0))
    if options.seed is not None and not trace.is_model:
        raise UsageError(
            f"--seed has no effect: {options.trace} is no modelled trace and nothing else is drawn; leave it out"
        )
    title = trace.lineage.title(trace.is_model)
    if options.limit is not None and not is_model:
        trace = limit(trace, options.limit)
    stats = trace.scan()
    if not stats.rows:
        raise UsageError(f"{options.trace}: there is no request to replay; {_rows(trace.report)}")
    scaled = trace if options.rate_scale == 1 else scale_rate(trace, options.rate_scale)
    return Workload(options.trace, scaled, stats, trace.report, title)


def _rows(report: ReadReport) -> str:
    dropped = "".join(f", {rows} dropped ({reason})" for reason, rows in report.dropped.items())
    return f"{counted(report.rows_read, 'row')} read{dropped}"
