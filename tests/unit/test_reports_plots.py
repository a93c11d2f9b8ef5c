"""The overview picture."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.transforms import Bbox

from reports.draw import Palette, draw_cdf
from reports.html.figures import HALF, _svg
from reports.plots import time_axis, write_overview_png
from reports.reduce import bin_timeline
from schedlab.errors import UsageError
from tests.unit.made_run import MadeRun, empty_run, made_run


def overview(path: Path, run: MadeRun) -> bytes:
    return write_overview_png(path, run.requests, run.timeline, run.summary, run.config).read_bytes()


@pytest.mark.parametrize("run", [empty_run(), made_run(1, intervals=1), made_run(2_000)], ids=["empty", "one", "many"])
def test_a_picture_of_fixed_size_and_the_same_bytes_again(tmp_path: Path, run: MadeRun) -> None:
    first = overview(tmp_path / "a.png", run)
    assert first[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", first[16:24]) == (1600, 1000)
    assert overview(tmp_path / "b.png", run) == first


def test_a_trace_name_is_not_read_as_mathematics(tmp_path: Path) -> None:
    run = made_run(20)
    run.config["trace"] = r"$\frac{$ 100%"
    assert overview(tmp_path / "a.png", run)


def test_an_unwritable_place_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="absent"):
        overview(tmp_path / "absent" / "a.png", empty_run())


def test_the_time_axis_has_the_unit_that_suits_the_span() -> None:
    units = [time_axis(bin_timeline(made_run(count).timeline).end_s)[1] for count in (50, 5_000, 100_000)]
    assert units == ["s", "min", "h"]


@pytest.mark.parametrize("target_s", [1e-4, 0.02, 0.1, 0.31, 2.0, 9_999.0])
def test_the_name_of_a_target_covers_no_curve_and_no_tick(target_s: float) -> None:
    """As the report places it: a tenth of a second at the median is where the curve is steepest."""
    drawn: list[list[Bbox]] = []

    def look(ax: Axes) -> None:
        draw_cdf(ax, np.geomspace(0.01, 1.0, 400), Palette(), target_s)
        FigureCanvasAgg(ax.figure)
        ax.figure.canvas.draw()
        (name,) = ax.texts
        ticks = [label for axis in (ax.xaxis, ax.yaxis) for label in axis.get_ticklabels()]
        curves = [line for line in ax.lines if line.get_color() != Palette().target]
        drawn.append([ax.figure.bbox, name.get_window_extent(), *(one.get_window_extent() for one in ticks + curves)])

    _svg("cdf", HALF, "", look)
    ((page, name, *others),) = drawn
    assert page.x0 <= name.x0 and name.x1 <= page.x1 and name.y1 <= page.y1
    assert not any(name.overlaps(other) for other in others)
