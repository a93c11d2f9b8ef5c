"""The report's pictures as inline SVG whose colours are the page's own, so that they follow light and dark."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import quoteattr

from reports.draw import MATPLOTLIB_SETTINGS, Palette, draw_by_length, draw_cdf, draw_series, legend
from reports.plots import draw_kv, finish_time_line, start_time_line, time_axis
from reports.reduce import Timeline, column
from reports.units import DASH, brief, duration, milliseconds, number, percent, section

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from reports.reduce import Floats

# Stand-ins for the page's colours: values that nothing else in a picture uses.
STAND_INS = Palette(ink="#010a01", faint="#010a02", first="#010a03", second="#010a04", target="#010a05")
NAMES = ("ink", "faint", "first", "second", "target")
HALF, WIDE, SQUARE = (5.2, 2.7), (10.6, 2.0), (10.6, 4.2)
EMPTY_HEIGHT = 0.7
RASTER_DPI = 110
LATENCIES = (
    ("ttft", "Time to first token (TTFT)"),
    ("queue", "Time in the queue"),
    ("tpot", "Time per output token (TPOT)"),
    ("e2e", "End to end (E2E)"),
)


@dataclass(frozen=True, slots=True)
class Figure:
    """A titled picture, with its key figures in words. `svg` is our own markup, without any text of the user's."""

    title: str
    svg: str
    figures: str = ""


def latency_figures(
    latencies: Mapping[str, Floats], summary: Mapping[str, Any], targets_s: Mapping[str, float]
) -> list[Figure]:
    """One CDF per latency, with its SLO; the quantiles named are those of the summary."""
    return [
        _latency_figure(key, title, latencies[key], section(summary, f"{key}_ms"), targets_s.get(key))
        for key, title in LATENCIES
    ]


def time_line_figures(line: Timeline, pool: float | None) -> list[Figure]:
    """Batch, queue, KV use and throughput over simulated time, on one and the same time axis."""
    return [
        _gauges("batch", "Rows in the batch", line, ("running",)),
        _gauges("queue", "Requests waiting for a seat, and preempted ones", line, ("waiting", "parked")),
        _kv_figure(line, pool),
        _throughput_figure(line),
    ]


def length_figure(requests: pd.DataFrame, ttft_s: Floats) -> Figure:
    """TTFT against prompt length."""
    import numpy as np

    prompt = column(requests, "prompt_tokens")
    alt = (
        f"TTFT against prompt length for {number(int(np.count_nonzero(~np.isnan(ttft_s))))} requests, both logarithmic"
    )
    svg = _svg("length", SQUARE, alt, lambda ax: draw_by_length(ax, prompt, ttft_s, STAND_INS))
    return Figure("TTFT against prompt length", svg)


def _latency_figure(
    key: str, title: str, values_s: Floats, record_ms: Mapping[str, Any], target_s: float | None
) -> Figure:
    import numpy as np

    known = values_s[~np.isnan(values_s)]
    figures = (
        f"p50 {milliseconds(record_ms.get('p50'))} · p99 {milliseconds(record_ms.get('p99'))}" if known.size else ""
    )
    alt = f"{title}, cumulative distribution over {number(int(known.size))} requests. {figures}"
    if known.size and target_s is not None:
        alt += f"; {percent(float(np.mean(known <= target_s)))} within the SLO of {brief(duration(target_s))}"
    svg = _svg(f"cdf-{key}", HALF, alt, lambda ax: draw_cdf(ax, known, STAND_INS, target_s))
    return Figure(title, svg, figures)


def _gauges(name: str, title: str, line: Timeline, gauges: tuple[str, ...]) -> Figure:
    def draw(ax: Axes) -> None:
        if not start_time_line(ax, line, STAND_INS):
            return
        x, _ = time_axis(line.end_s)
        for gauge, colour in zip(gauges, (STAND_INS.first, STAND_INS.second), strict=False):
            draw_series(ax, x, line.mean[gauge], line.peak[gauge], colour, gauge)
        finish_time_line(ax)
        if len(gauges) > 1:
            legend(ax, STAND_INS)

    peaks = ", ".join(f"most {gauge} {_most(line.peak[gauge])}" for gauge in gauges)
    return Figure(title, _svg(name, WIDE, f"{title} over simulated time: {peaks}", draw))


def _kv_figure(line: Timeline, pool: float | None) -> Figure:
    title = f"KV blocks in use, share of a pool of {number(round(pool))}" if pool else "KV blocks in use"
    alt = f"{title} over simulated time: at most {_most(line.peak['kv_blocks'])} blocks"
    return Figure(title, _svg("kv", WIDE, alt, lambda ax: draw_kv(ax, line, pool, STAND_INS)))


def _throughput_figure(line: Timeline) -> Figure:
    def draw(ax: Axes) -> None:
        if not start_time_line(ax, line, STAND_INS):
            return
        x, _ = time_axis(line.end_s)
        draw_series(ax, x, line.rate["prompt_tokens"], None, STAND_INS.second, "prompt")
        draw_series(ax, x, line.rate["output_tokens"], None, STAND_INS.first, "output")
        finish_time_line(ax)
        legend(ax, STAND_INS)

    title = "Throughput, tokens per second"
    most = _most(line.rate["output_tokens"])
    return Figure(
        title, _svg("throughput", WIDE, f"{title}, over simulated time: at most {most} output tokens/s", draw)
    )


def _most(values: Floats) -> str:
    import numpy as np

    known = values[~np.isnan(values)]
    return number(float(known.max())) if known.size else DASH


def _svg(name: str, size: tuple[float, float], alt: str, draw: Callable[[Axes], None]) -> str:
    """Draw one picture of `size` inches. Margins are fixed, so that pictures below one another line up."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure as Canvas

    with rc_context(MATPLOTLIB_SETTINGS):
        canvas = Canvas(figsize=size)
        width, height = size
        below = 0.28 if size == HALF else 0.42
        axes = canvas.add_axes((0.66 / width, below / height, 1 - 0.92 / width, 1 - (below + 0.24) / height))
        draw(axes)
        if not axes.axison:
            canvas.set_size_inches(width, EMPTY_HEIGHT)
        buffer = StringIO()
        metadata: dict[str, Any] = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        canvas.savefig(buffer, format="svg", transparent=True, dpi=RASTER_DPI, metadata=metadata)
    return _inline(buffer.getvalue(), name, alt)


def _inline(document: str, name: str, alt: str) -> str:
    """A whole SVG document made fit to stand in a page: no prologue, unique ids, the page's colours, a name."""
    svg = document[document.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"(\bid=\"|url\(#|href=\"#)", rf"\g<1>{name}-", svg)
    svg = re.sub(
        r'(<svg[^>]*?) width="[^"]*"', r"\1", re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1), count=1
    )
    for colour in NAMES:
        svg = svg.replace(getattr(STAND_INS, colour), f"var(--{colour})")
    return svg.replace("<svg", f'<svg role="img" aria-label={quoteattr(alt)}', 1)
