"""Workloads of LLMServingSim (casys-kaist/LLMServingSim, MIT): `arrival_time_ns`, `input_toks`, `output_toks`, as CSV
or JSONL.

Other fields, token ids among them, are not used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import IO, Any

from traces.detect import Head
from traces.fields import Place, count, csv_rows, json_rows, required, stamp_ns
from traces.file_trace import Format
from traces.options import ReadOptions
from traces.record import TraceRecord
from traces.report import ReadReport
from traces.source import Source

Rows = Callable[[IO[str], Place], Iterator[dict[str, Any]]]
FIELDS = ("arrival_time_ns", "input_toks", "output_toks")


def read_csv(source: Source, options: ReadOptions, report: ReadReport) -> Iterator[TraceRecord]:
    """Records of the table, in file order."""
    with source.text() as lines:
        yield from _records(lines, csv_rows, source, options, report)


def read_jsonl(source: Source, options: ReadOptions, report: ReadReport) -> Iterator[TraceRecord]:
    """Records of the JSONL, in file order."""
    with source.text() as lines:
        yield from _records(lines, json_rows, source, options, report)


def _records(
    lines: IO[str], rows: Rows, source: Source, options: ReadOptions, report: ReadReport
) -> Iterator[TraceRecord]:
    place = Place(source.name)
    for row in rows(lines, place):
        report.rows_read += 1
        stamp, prompt_value, output_value = (required(place, row, field) for field in FIELDS)
        arrival = stamp_ns(place, "arrival_time_ns", stamp, 1, options.shift_negative)
        prompt, output = count(place, "input_toks", prompt_value), count(place, "output_toks", output_value)
        if not prompt:
            report.drop("empty prompt")
            continue
        report.rows_kept += 1
        yield TraceRecord(arrival, prompt, output)


def _matches_csv(head: Head) -> bool:
    return head.csv_with(*FIELDS)


def _matches_jsonl(head: Head) -> bool:
    return head.json_with(*FIELDS)


CSV = Format("llmservingsim-csv", "LLMServingSim lengths (CSV)", _matches_csv, read_csv)
JSONL = Format("llmservingsim-jsonl", "LLMServingSim workload (JSONL)", _matches_jsonl, read_jsonl)
