"""Draws reduced tables on matplotlib axes. Colours come from a palette, so that a page may swap them for its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reports.reduce import cdf
from reports.units import brief, duration, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from reports.reduce import Floats

SCATTER_POINTS = 1_000
HEAT_CELLS = (72, 56)
MEDIAN_OF_AT_LEAST = 30
WIDEST_CDF_DECADES = 5
MATPLOTLIB_SETTINGS: Any = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9.0,
    "svg.fonttype": "none",
    "svg.hashsalt": "schedlab",
    "path.simplify_threshold": 0.3,
}


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours as #rrggbb. `heat` colours a raster image, so it must read on light and on dark ground."""

    ink: str = "#334155"
    faint: str = "#dbe1ea"
    first: str = "#2563eb"
    second: str = "#ea580c"
    target: str = "#dc2626"
    heat: str = "#3b82f6"


def frame(ax: Axes, colours: Palette) -> None:
    """Two thin spines, a light grid, no ticks."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(colours.faint)
    ax.grid(True, color=colours.faint, linewidth=0.6)
    ax.set_axisbelow(True)
    ax.tick_params(which="both", length=0, pad=4, colors=colours.ink, labelcolor=colours.ink)
    ax.xaxis.label.set_color(colours.ink)
    ax.yaxis.label.set_color(colours.ink)
    ax.title.set_color(colours.ink)


def nothing(ax: Axes, colours: Palette, why: str) -> None:
    """An empty picture that says why it is empty."""
    ax.set_axis_off()
    ax.text(0.5, 0.5, why, transform=ax.transAxes, ha="center", va="center", color=colours.ink)


def draw_cdf(ax: Axes, values_s: Floats, colours: Palette, target_s: float | None = None) -> None:
    """One latency's distribution on a logarithmic axis, its median and p99 marked, and the SLO as a dashed line.

    Values of zero cannot stand on that axis: the curve then starts at their share.
    """
    x, share = cdf(values_s)
    if not (x.size and x[-1] > 0):
        nothing(
            ax, colours, "no request has this latency" if not x.size else f"zero for all {number(x.size - 1)} requests"
        )
        return
    frame(ax, colours)
    _cdf_curve(ax, x, share, colours.first)
    for level in (0.5, 0.99):
        ax.plot(x[share >= level][:1], [level], marker="o", markersize=4, color=colours.first)
    low, high = _cdf_limits(x, target_s)
    if target_s is not None and target_s > 0:
        _target(ax, target_s, low, high, colours)
    ax.set_xscale("log")
    _log_ticks(ax.xaxis, low, high, duration)
    ax.set_xlim(low, high)
    _share_axis(ax)


def draw_cdfs(ax: Axes, curves: Sequence[tuple[str, Floats]], colours: Palette) -> None:
    """Several latencies' distributions on one axis."""
    known = [(label, *cdf(values)) for label, values in curves]
    known = [curve for curve in known if curve[1].size and curve[1][-1] > 0]
    if not known:
        nothing(ax, colours, "no request has a latency")
        return
    frame(ax, colours)
    for (label, x, share), colour in zip(known, (colours.first, colours.second, colours.ink), strict=False):
        _cdf_curve(ax, x, share, colour, label)
    limits = [_cdf_limits(x, None) for _, x, _ in known]
    low, high = min(low for low, _ in limits), max(high for _, high in limits)
    ax.set_xscale("log")
    _log_ticks(ax.xaxis, low, high, duration)
    ax.set_xlim(low, high)
    _share_axis(ax)
    legend(ax, colours)


def draw_series(ax: Axes, x: Floats, mean: Floats, peak: Floats | None, colour: str, label: str) -> None:
    """A time line: its mean as a filled curve, its peaks, where they rise above it, as a lighter band."""
    ax.fill_between(x, 0, mean, color=colour, alpha=0.14, linewidth=0)
    if peak is not None:
        ax.fill_between(x, mean, peak, color=colour, alpha=0.3, linewidth=0)
    ax.plot(x, mean, color=colour, linewidth=1.1, label=label, marker="o" if x.size == 1 else "", markersize=4)


def draw_by_length(ax: Axes, prompt_tokens: Floats, ttft_s: Floats, colours: Palette) -> None:
    """TTFT against prompt length, both logarithmic: dots, or for many requests a picture of their density."""
    import numpy as np

    fits = (prompt_tokens > 0) & (ttft_s > 0)
    x, y = prompt_tokens[fits], ttft_s[fits]
    if not x.size:
        nothing(ax, colours, "no request has a first token")
        return
    frame(ax, colours)
    if x.size <= SCATTER_POINTS:
        ax.scatter(x, y, s=9, color=colours.first, alpha=0.6, linewidths=0)
    else:
        _density(ax, x, y, colours)
    ax.set_xscale("log")
    ax.set_yscale("log")
    low, high = float(np.min(y)) / 1.3, float(np.max(y)) * 1.3
    _log_ticks(ax.yaxis, low, high, duration)
    ax.set_ylim(low, high)
    _log_ticks(ax.xaxis, float(x.min()), float(x.max()), number)
    ax.set_xlim(float(x.min()) / 1.2, float(x.max()) * 1.2)
    ax.set_xlabel("prompt tokens")


def legend(ax: Axes, colours: Palette) -> None:
    """A legend without a box, above the axes."""
    ax.legend(
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=4,
        frameon=False,
        labelcolor=colours.ink,
        borderaxespad=0.1,
        handlelength=1.2,
    )


def _cdf_curve(ax: Axes, x: Floats, share: Floats, colour: str, label: str = "") -> None:
    shown = x > 0
    ax.plot(x[shown], share[shown], color=colour, linewidth=1.6, drawstyle="steps-post", label=label)


def _cdf_limits(x: Floats, target_s: float | None) -> tuple[float, float]:
    """Ends of the time axis: most of the values, at most five decades, and the target."""
    positive = x[x > 0]
    high = float(positive[-1])
    low = max(float(positive[int(0.005 * positive.size)]), high / 10**WIDEST_CDF_DECADES)
    if target_s is not None and target_s > 0:
        low, high = min(low, target_s), max(high, target_s)
    return low / 1.6, high * 2.2


def _target(ax: Axes, target_s: float, low: float, high: float, colours: Palette) -> None:
    """A dashed line; its name stands above the axes, where no curve is, and not beyond their ends."""
    import math

    ax.axvline(target_s, color=colours.target, linewidth=1.2, linestyle=(0, (4, 3)))
    place = math.log(target_s / low) / math.log(high / low)
    ax.text(
        target_s,
        1.0,
        f"SLO {brief(duration(target_s))}",
        transform=ax.get_xaxis_transform(),
        color=colours.target,
        ha="left" if place < 0.2 else "right" if place > 0.8 else "center",
        va="bottom",
    )


def _share_axis(ax: Axes) -> None:
    from matplotlib.ticker import PercentFormatter

    ax.set_ylim(0, 1.03)
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))


def _log_ticks(axis: Any, low: float, high: float, words: Any) -> None:
    """Ticks at powers of ten, and at 2 and 5 between them where there is room."""
    import math

    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    decades = math.log10(high / low) if low > 0 else 9
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if decades < 2 else (1.0, 3.0) if decades < 3 else (1.0,)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: brief(words(float(f"{value:.3g}")))))
    axis.set_minor_formatter(NullFormatter())


def _density(ax: Axes, x: Floats, y: Floats, colours: Palette) -> None:
    """Requests per logarithmic cell as opacity, and the median of each column of cells that holds enough of them."""
    import numpy as np
    from matplotlib.colors import LinearSegmentedColormap, LogNorm, to_rgb

    log_x, log_y = np.log10(x), np.log10(y)
    counts, edges_x, edges_y = np.histogram2d(log_x, log_y, bins=HEAT_CELLS)
    ramp = LinearSegmentedColormap.from_list("ramp", [(*to_rgb(colours.heat), alpha) for alpha in (0.12, 0.55, 1.0)])
    shown = np.ma.masked_equal(counts.T, 0)
    mesh = ax.pcolormesh(10**edges_x, 10**edges_y, shown, cmap=ramp, norm=LogNorm(1, max(2, counts.max())))
    mesh.set_rasterized(True)
    median_x, median_y = _medians(log_x, log_y, edges_x[::3])
    ax.plot(10**median_x, 10**median_y, color=colours.second, linewidth=1.4, label="median")
    legend(ax, colours)


def _medians(log_x: Floats, log_y: Floats, edges: Floats) -> tuple[Floats, Floats]:
    import numpy as np

    order = np.argsort(log_x, kind="stable")
    bounds = np.searchsorted(log_x[order], edges)
    filled = [index for index in range(len(edges) - 1) if bounds[index + 1] - bounds[index] >= MEDIAN_OF_AT_LEAST]
    values = [float(np.median(log_y[order[bounds[index] : bounds[index + 1]]])) for index in filled]
    return np.array([(edges[index] + edges[index + 1]) / 2 for index in filled]), np.array(values)
