"""BurstGPT (HPMLL/BurstGPT, CC BY 4.0), versions 1 and 3. No file of it was at hand: written from its public
description.

CSV with `Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type`; version 3 inserts `Session ID,Elapsed
time`, so columns are read by name. Timestamp is in seconds, maybe with a fraction, and need not begin at 0: the first
row of the file is time 0. No response token means that the request failed in the recording; such rows are dropped.
Models are counted in the report.
"""

from __future__ import annotations

from collections.abc import Iterator

from traces.detect import Head
from traces.fields import NS_PER_S, Place, count, csv_rows, duration_ns
from traces.file_trace import Format
from traces.options import ReadOptions
from traces.record import TraceRecord
from traces.report import ReadReport
from traces.source import Source


def matches(head: Head) -> bool:
    """Told by its columns."""
    return head.csv_with("Timestamp", "Request tokens", "Response tokens")


def read(source: Source, options: ReadOptions, report: ReadReport) -> Iterator[TraceRecord]:
    """Records in file order, stamps counted from the first row."""
    origin: int | None = None
    turns: dict[str, int] = {}
    models: dict[str, int] = {}
    with source.text() as lines:
        place = Place(source.name)
        for row in csv_rows(lines, place):
            report.rows_read += 1
            now = duration_ns(place, "Timestamp", row["Timestamp"], NS_PER_S)
            origin = now if origin is None else origin
            prompt = count(place, "Request tokens", row["Request tokens"])
            output = count(place, "Response tokens", row["Response tokens"])
            if not prompt or not output:
                report.drop(_reason(prompt, output))
                continue
            session = row.get("Session ID", "").strip()
            turn = turns.get(session, 0) if session else 0
            turns[session] = turn + 1
            models[row.get("Model", "")] = models.get(row.get("Model", ""), 0) + 1
            report.rows_kept += 1
            yield TraceRecord(now - origin, prompt, output, session, turn)
    report.note("models, replayed as one: " + ", ".join(f"{name or 'unnamed'} {rows}" for name, rows in models.items()))


def _reason(prompt_tokens: int, output_tokens: int) -> str:
    if prompt_tokens:
        return "failed: no response tokens"
    return "empty prompt" if output_tokens else "failed: no tokens at all"


FORMAT = Format("burstgpt", "BurstGPT v1 or v3 (CSV)", matches, read)
