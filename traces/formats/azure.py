"""Azure LLM inference traces 2023, 2024 and 2025 (Azure/AzurePublicDataset, CC BY 4.0).

CSV with `TIMESTAMP,ContextTokens,GeneratedTokens` (2025: `NumImages` too). Stamps are wall clock: 2023 without a zone
and with seven digits, 2024 with `+00:00`, 2025 with `T` and `Z`. Digits beyond the nanosecond are cut. The first row
of the file is time 0. Images are counted in the report and not replayed. A row without a prompt is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from traces.clock import wall_clock
from traces.detect import Head
from traces.fields import BIGGEST, COMMENT, Place, cells, columns_of, count
from traces.file_trace import Format
from traces.options import ReadOptions
from traces.record import TraceRecord
from traces.report import ReadReport
from traces.source import Source

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


def matches(head: Head) -> bool:
    """Told by its three columns."""
    return head.csv_with(*COLUMNS)


def read(source: Source, options: ReadOptions, report: ReadReport) -> Iterator[TraceRecord]:
    """Records in file order, stamps counted from the first row."""
    with source.text() as lines:
        place = Place(source.name)
        columns = _header(lines, place)
        plain = columns == list(COLUMNS)
        clock = wall_clock()
        origin: int | None = None
        empty = images = kept = 0
        for line in lines:
            place.line += 1
            try:
                if not plain:
                    raise ValueError
                stamp, prompt_text, output_text = line.split(",")
                now, prompt, output = clock(stamp), int(prompt_text), int(output_text)
                if not (0 <= prompt < BIGGEST and 0 <= output < BIGGEST):
                    raise ValueError
            except ValueError:
                if not line.strip():
                    continue
                now, prompt, output, with_images = _checked(place, columns, line, clock)
                images += with_images
            if origin is None:
                origin = now
            if prompt:
                kept += 1
                yield TraceRecord(now - origin, prompt, output)
            else:
                empty += 1
        report.rows_read += kept + empty
        report.rows_kept += kept
        report.drop("empty prompt", empty)
        if images:
            report.note(f"{images} images in the NumImages column are not replayed")


def _header(lines: Iterator[str], place: Place) -> list[str]:
    for line in lines:
        place.line += 1
        if line.strip() and not line.startswith(COMMENT):
            return columns_of(place, line)
    return []


def _checked(place: Place, columns: list[str], line: str, clock: Callable[[str], int]) -> tuple[int, int, int, int]:
    values = cells(line)
    if len(values) != len(columns):
        place.refuse("row", f"{len(values)} cells, the header has {len(columns)}")
    row = dict(zip(columns, values, strict=True))
    try:
        now = clock(row["TIMESTAMP"].strip())
    except ValueError:
        place.refuse("TIMESTAMP", f"{row['TIMESTAMP']!r} is not a stamp like 2023-11-16 18:15:46.6805900")
    prompt = count(place, "ContextTokens", row["ContextTokens"])
    output = count(place, "GeneratedTokens", row["GeneratedTokens"])
    return now, prompt, output, count(place, "NumImages", row.get("NumImages") or "0")


FORMAT = Format("azure", "Azure LLM inference trace 2023/2024/2025 (CSV)", matches, read)
