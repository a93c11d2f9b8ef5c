"""Azure LLM inference traces 2023, 2024 and 2025 (Azure/AzurePublicDataset, CC BY 4.0).

CSV with `TIMESTAMP,ContextTokens,GeneratedTokens` (2025: `NumImages` too). Stamps are wall clock: 2023 without a zone
and with seven digits, 2024 with `+00:00`, 2025 with `T` and `Z`. Digits beyond the nanosecond are cut. The first row
of the file is time 0. Images are counted in the report and not replayed. A row without a prompt is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date

from traces.detect import Head
from traces.fields import NS_PER_S, Place, cells, count
from traces.file_trace import Format
from traces.options import ReadOptions
from traces.record import TraceRecord
from traces.report import ReadReport
from traces.source import Source

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_SCALE = tuple(10 ** (9 - digits) for digits in range(10))


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
                if prompt < 0 or output < 0:
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
        if line.strip():
            return [name.strip() for name in cells(line)]
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


def wall_clock() -> Callable[[str], int]:
    """A parser of `YYYY-MM-DD?hh:mm:ss[.digits][Z|+hh:mm]` to nanoseconds since year 1; ValueError for anything else.

    The part up to the minute is the same for many rows and kept from the last call.
    """
    minute, minute_ns = "", 0

    def parse(stamp: str) -> int:
        nonlocal minute, minute_ns
        if stamp[:17] != minute:
            minute_ns = _minute_ns(stamp[:17])
            minute = stamp[:17]
        second, fraction = stamp[17:19], stamp[20:]
        if not second.isdecimal() or second > "60":
            raise ValueError
        now = minute_ns + int(second) * NS_PER_S
        if fraction.isdecimal() and stamp[19] == ".":
            digits = len(fraction)
            return now + (int(fraction) * _SCALE[digits] if digits < 10 else int(fraction[:9]))
        return now + _tail_ns(stamp[19:])

    return parse


def _minute_ns(text: str) -> int:
    hour, minute = text[11:13], text[14:16]
    if len(text) != 17 or text[10] not in " T" or text[13] != ":" or text[16] != ":":
        raise ValueError
    if not (hour.isdecimal() and minute.isdecimal() and hour < "24" and minute < "60"):
        raise ValueError
    return ((date.fromisoformat(text[:10]).toordinal() * 24 + int(hour)) * 60 + int(minute)) * 60 * NS_PER_S


def _tail_ns(tail: str) -> int:
    """Nanoseconds of a fraction with or without a zone, the zone taken off."""
    zone_at = next((at for at, char in enumerate(tail) if char in "Z+-"), len(tail))
    fraction, zone = tail[:zone_at], tail[zone_at:]
    nanoseconds = 0
    if fraction:
        if fraction[0] != "." or not fraction[1:].isdecimal():
            raise ValueError
        nanoseconds = int(fraction[1:10].ljust(9, "0"))
    if zone in ("", "Z"):
        return nanoseconds
    hours, minutes = zone[1:].split(":")
    offset_ns = (int(hours) * 60 + int(minutes)) * 60 * NS_PER_S
    return nanoseconds + (offset_ns if zone[0] == "-" else -offset_ns)


FORMAT = Format("azure", "Azure LLM inference trace 2023/2024/2025 (CSV)", matches, read)
