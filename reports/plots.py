"""One picture of a run, for a README or a slide."""

from __future__ import annotations

import os
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reports.draw import (
    MATPLOTLIB_SETTINGS,
    Palette,
    draw_by_length,
    draw_cdfs,
    draw_series,
    frame,
    legend,
    nothing,
)
from reports.files import replace_file
from reports.reduce import bin_timeline, column, latencies_s, pool_blocks
from reports.table import headline

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from reports.reduce import Floats, Timeline

LONGEST_TITLE = 110
TIME_UNITS = (("s", 1.0), ("min", 60.0), ("h", 3600.0))


def write_overview_png(
    path: str | os.PathLike[str],
    requests: pd.DataFrame,
    timeline: pd.DataFrame,
    summary: Mapping[str, Any],
    config: Mapping[str, Any],
) -> Path:
    """Write a PNG of 1,600 x 1,000 pixels: latency CDFs, batch and queue, KV use, TTFT against prompt length.

    The same tables give the same bytes (under the same matplotlib).

    Raises:
        UsageError: the file cannot be written.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    latencies, line, colours = latencies_s(requests), bin_timeline(timeline), Palette()
    with rc_context(MATPLOTLIB_SETTINGS):
        figure = Figure(figsize=(10, 6.25), dpi=160, layout="constrained")
        axes = figure.subplots(2, 2)
        figure.suptitle(headline(config)[:LONGEST_TITLE], parse_math=False, color=colours.ink, fontsize=11)
        draw_cdfs(
            axes[0, 0], [("TTFT", latencies["ttft"]), ("E2E", latencies["e2e"]), ("queue", latencies["queue"])], colours
        )
        draw_batch_and_queue(axes[0, 1], line, colours)
        draw_kv(axes[1, 0], line, pool_blocks(summary, config), colours)
        draw_by_length(axes[1, 1], column(requests, "prompt_tokens"), latencies["ttft"], colours)
        titles = ("requests served within", "batch and queue", "KV pool in use", "TTFT")
        for ax, title in zip(axes.flat, titles, strict=True):
            ax.set_title(title, loc="left", fontsize=9, color=colours.ink, fontweight="bold")
        buffer = BytesIO()
        figure.savefig(buffer, format="png", metadata={"Software": None})
    return replace_file(path, buffer.getvalue())


def time_axis(end_s: Floats) -> tuple[Floats, str]:
    """Times in the unit that suits their span, and its name."""
    span = float(end_s[-1]) if end_s.size else 0.0
    unit, size = next(((unit, size) for unit, size in reversed(TIME_UNITS) if span >= 3 * size), TIME_UNITS[0])
    return end_s / size, unit


def draw_batch_and_queue(ax: Axes, line: Timeline, colours: Palette) -> None:
    """Running and waiting on one axis."""
    if not start_time_line(ax, line, colours):
        return
    x, _ = time_axis(line.end_s)
    draw_series(ax, x, line.mean["running"], line.peak["running"], colours.first, "running")
    draw_series(ax, x, line.mean["waiting"], line.peak["waiting"], colours.second, "waiting")
    finish_time_line(ax)
    legend(ax, colours)


def draw_kv(ax: Axes, line: Timeline, pool: float | None, colours: Palette) -> None:
    """KV blocks in use as a share of the pool, or as blocks where the pool's size is unknown."""
    from matplotlib.ticker import PercentFormatter

    if not start_time_line(ax, line, colours):
        return
    scale = pool or 1.0
    x, _ = time_axis(line.end_s)
    draw_series(ax, x, line.mean["kv_blocks"] / scale, line.peak["kv_blocks"] / scale, colours.first, "KV blocks")
    finish_time_line(ax, least=1.0 / scale)
    if pool:
        ax.set_ylim(0, max(1.0, ax.get_ylim()[1]) if line.peak["kv_blocks"].max() > 0.5 * pool else None)
        ax.yaxis.set_major_formatter(PercentFormatter(1.0))


def start_time_line(ax: Axes, line: Timeline, colours: Palette) -> bool:
    """Prepare the axes of a time line; False, and a word about it, where there is none."""
    if not line.end_s.size:
        nothing(ax, colours, "nothing ran")
        return False
    frame(ax, colours)
    ax.set_xlabel(f"simulated time ({time_axis(line.end_s)[1]})")
    return True


def finish_time_line(ax: Axes, least: float = 1.0) -> None:
    """Start the value axis at zero, let it reach `least` or more, and write its numbers in full."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    ax.margins(x=0.01)
    ax.set_ylim(0, max(ax.get_ylim()[1], least))
    ax.yaxis.set_major_locator(MaxNLocator(5))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
