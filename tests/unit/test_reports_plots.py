"""The overview picture."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

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
