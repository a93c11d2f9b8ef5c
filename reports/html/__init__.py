"""One self-contained HTML file about a run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reports.files import replace_file

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["write_report"]


def write_report(
    path: str | os.PathLike[str],
    requests: pd.DataFrame,
    timeline: pd.DataFrame,
    summary: Mapping[str, Any],
    config: Mapping[str, Any],
    run: Mapping[str, Any],
    notes: Sequence[str],
) -> Path:
    """Write the report of a run: key figures, plots, SLO and configuration tables, with the notes on top.

    The file needs no network and no script, and stays below 2 MB however long the run was. Every text is escaped.

    Args:
        requests: one row per request; times in nanoseconds, null where a request did not get that far.
        timeline: one row per interval; `t_ns` is its end, gauges are as they stood there, tokens are counts in it.
        summary: aggregates; latencies in ms, shares as 0 to 1, SLO targets in seconds. Any of it may be absent.
        config: all that repeats the run.
        run: what differs on a repeat: wall time, machine, date.
        notes: sentences that a reader must see before any number.

    Raises:
        UsageError: the file cannot be written.
    """
    from reports.html.page import render

    return replace_file(path, render(requests, timeline, summary, config, run, notes).encode())
