"""Replay traces of Vidur (microsoft/vidur, MIT): CSV with `arrived_at` (s), `num_prefill_tokens`, `num_decode_tokens`.

Vidur also ships tables of lengths without arrivals; those are refused, since nobody can say when such requests come.
"""

from __future__ import annotations

from collections.abc import Iterator

from traces.detect import Head
from traces.fields import NS_PER_S, Place, count, csv_rows, stamp_ns
from traces.file_trace import Format
from traces.options import ReadOptions
from traces.record import TraceRecord
from traces.report import ReadReport
from traces.source import Source

LENGTH_COLUMNS = ("num_prefill_tokens", "num_decode_tokens")
_NO_ARRIVALS = (
    "a Vidur table of lengths without arrival times; pair it with an arrival process: "
    "schedlab trace generate --arrivals poisson --rate 10 --rows 1000 --lengths THIS_FILE OUT"
)


def matches(head: Head) -> bool:
    """Told by the arrival column beside the lengths."""
    return head.csv_with("arrived_at", *LENGTH_COLUMNS)


def matches_lengths(head: Head) -> bool:
    """The lengths alone."""
    return head.csv_with(*LENGTH_COLUMNS) and not head.has("arrived_at")


def read(source: Source, options: ReadOptions, report: ReadReport) -> Iterator[TraceRecord]:
    """Records in file order."""
    with source.text() as lines:
        place = Place(source.name)
        for row in csv_rows(lines, place):
            report.rows_read += 1
            arrival = stamp_ns(place, "arrived_at", row["arrived_at"], NS_PER_S, options.shift_negative)
            prompt, output = lengths_of(place, row)
            if not prompt:
                report.drop("empty prompt")
                continue
            report.rows_kept += 1
            yield TraceRecord(arrival, prompt, output)


def lengths_of(place: Place, row: dict[str, str]) -> tuple[int, int]:
    """Prompt and output tokens of a row."""
    prompt, output = (count(place, column, row[column]) for column in LENGTH_COLUMNS)
    return prompt, output


FORMAT = Format("vidur", "Vidur replay trace (CSV)", matches, read)
LENGTHS = Format("vidur-lengths", "Vidur lengths (CSV)", matches_lengths, read, refusal=_NO_ARRIVALS)
