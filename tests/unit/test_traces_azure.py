"""The Azure reader: stamps of every year's spelling, oddities, and the real files."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedlab.errors import UsageError
from tests.shared_data import shared
from traces.clock import wall_clock
from traces.open import open_trace
from traces.summary import summarise

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"


def arrivals(tmp_path: Path, stamps: list[str]) -> list[int]:
    path = tmp_path / "a.csv"
    path.write_text(HEADER + "\r\n".join(f"{stamp},10,2" for stamp in stamps), newline="")
    return [record.arrival_ns for record in open_trace(path).records()]


def test_t04_no_digit_of_a_fraction_is_lost(tmp_path: Path) -> None:
    day = "2023-11-16 18:15:46"
    found = arrivals(tmp_path, [f"{day}.0010000", f"{day}.0020000", f"{day}.0090000", f"{day}.0110000"])
    assert found == [0, 1_000_000, 8_000_000, 10_000_000]


def test_t04_whole_seconds_zones_and_the_spelling_with_t_and_z(tmp_path: Path) -> None:
    stamps = ["2024-05-10 23:59:59", "2024-05-11T00:00:00.25Z", "2024-05-11 02:00:00.500000+02:00"]
    stamps += ["2024-05-10 20:00:01-04:00", "2024-05-11 00:00:01.1234567899"]
    ns = 10**9
    assert arrivals(tmp_path, stamps) == [0, 5 * ns // 4, 3 * ns // 2, 2 * ns, 2 * ns + 123_456_789]


@pytest.mark.parametrize(
    "stamp",
    ["", "2023-11-16", "2023-11-16 18:15", "2023-13-16 18:15:46", "2023-11-16 25:15:46", "2023-11-16 18:61:46",
     "2023-11-16 18:15:99", "2023-11-16 18:15:46.", "2023-11-16 18:15:46.12x", "2023-11-16x18:15:46", "1700158546",
     "2023-11-16 18:15:46 PST"],
)  # fmt: skip
def test_what_is_no_stamp_is_refused_with_line_and_field(tmp_path: Path, stamp: str) -> None:
    with pytest.raises(UsageError, match=r"a\.csv:3: TIMESTAMP"):
        arrivals(tmp_path, ["2023-11-16 18:15:46", stamp])


def test_the_clock_does_not_keep_a_bad_minute() -> None:
    clock = wall_clock()
    with pytest.raises(ValueError, match=r".*"):
        clock("2023-11-16 18:99:46")
    with pytest.raises(ValueError, match=r".*"):
        clock("2023-11-16 18:99:46")


def test_the_columns_of_2025_are_read_by_name_and_images_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "lmm.csv"
    path.write_text(
        '"TIMESTAMP","NumImages","ContextTokens","GeneratedTokens"\n'
        '"2025-01-01T00:00:00.000Z","2","100","5"\n"2025-01-01T00:00:00.250Z","0","0","5"\n"2025-01-01T00:00:01.000Z","1","7","0"\n'
    )
    trace = open_trace(path)
    assert [record[:3] for record in trace.records()] == [(0, 100, 5), (10**9, 7, 0)]
    assert trace.report.dropped == {"empty prompt": 1}
    assert trace.report.add_up()
    assert any(note.startswith("3 images") for note in trace.report.notes)


@pytest.mark.parametrize("row", ["2023-11-16 18:15:47,-3,4", "2023-11-16 18:15:47,3,-4", "2023-11-16 18:15:47,3"])
def test_negative_and_absent_counts_are_refused(tmp_path: Path, row: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(HEADER + "2023-11-16 18:15:46,1,1\n" + row + "\n")
    with pytest.raises(UsageError, match=r"a\.csv:3: "):
        list(open_trace(path).records())


@pytest.mark.parametrize(
    ("name", "rows", "span_s", "cv", "peak", "outputs"),
    [("conv", 19_366, 3501.721937, 1.0942, 16, 4_088_665), ("code", 8_819, 3435.948056, 13.1513, 67, 245_896)],
)
def test_the_real_files_give_their_known_counts(
    name: str, rows: int, span_s: float, cv: float, peak: int, outputs: int
) -> None:
    summary = summarise(open_trace(shared(f"traces/azure-2023/AzureLLMInferenceTrace_{name}.csv")))
    assert (summary.rows, summary.span_s, summary.peak_per_s, summary.output_tokens) == (rows, span_s, peak, outputs)
    assert summary.gap_cv == pytest.approx(cv, abs=1e-4)
    assert summary.report["dropped"] == {}
    assert summary.report["reordered_rows"] == 0
