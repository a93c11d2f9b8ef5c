"""Keep a part of a trace. Stamps of a part that does not begin at the start are counted from its own beginning."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice

from schedlab.errors import UsageError
from traces.fields import BIGGEST, NS_PER_S
from traces.record import TraceRecord
from traces.report import ReadReport
from traces.trace import Trace
from traces.transforms.derived import Derived
from traces.words import counted


def limit(trace: Trace, rows: int) -> Trace:
    """The first `rows` rows, in order. A trace with fewer is kept whole, and the report says so."""
    if rows < 1:
        raise UsageError(f"limit is {rows}; at least 1 row is needed")

    def step(records: Iterator[TraceRecord], report: ReadReport) -> Iterator[TraceRecord]:
        there = report.rows_kept
        if there < rows:
            report.note(f"limit {rows}: the trace has only {counted(there, 'row')}; all are kept, none is repeated")
        report.drop(f"past the limit of {rows}", max(0, there - rows))
        return islice(records, min(rows, sys.maxsize))

    return Derived(trace, step, f"keeping the first {counted(rows, 'row')}")


def slice_rows(trace: Trace, start: int, stop: int = BIGGEST) -> Trace:
    """Rows start..stop-1, counted from 0. Turns of a closed loop whose first turn is cut off go too."""
    if not 0 <= start < stop:
        raise UsageError(f"rows {start}:{stop}: the first must be from 0 up and below the last")

    shown = f"{start}:{stop if stop < BIGGEST else ''}"

    def step(records: Iterator[TraceRecord], report: ReadReport) -> Iterator[TraceRecord]:
        origin: int | None = None
        outside = orphans = 0
        for row, record in enumerate(records):
            if not start <= row < stop:
                outside += 1
            elif origin is None and record.think_ns >= 0:
                orphans += 1
            else:
                origin = record.arrival_ns if origin is None else origin
                yield _moved(record, origin)
        report.drop(f"outside of rows {shown}", outside)
        report.drop("turns whose session begins before the slice", orphans)

    return Derived(trace, step, f"keeping rows {shown}")


def slice_time(trace: Trace, from_ns: int, to_ns: int = BIGGEST) -> Trace:
    """Requests that arrive in [from_ns, to_ns), which becomes [0, to_ns - from_ns).

    Later turns of a closed loop go with their session.
    """
    if not 0 <= from_ns < to_ns:
        raise UsageError(f"time slice {from_ns}..{to_ns} ns: the beginning must be from 0 up and below the end")

    def step(records: Iterator[TraceRecord], report: ReadReport) -> Iterator[TraceRecord]:
        inside = False
        outside = 0
        for record in records:
            if record.think_ns < 0:
                inside = from_ns <= record.arrival_ns < to_ns
            if inside:
                yield _moved(record, from_ns)
            else:
                outside += 1
        report.drop("outside of the time slice", outside)

    until = "on" if to_ns == BIGGEST else f"to {to_ns / NS_PER_S:g}"
    return Derived(trace, step, f"keeping seconds {from_ns / NS_PER_S:g} {until}")


def _moved(record: TraceRecord, origin_ns: int) -> TraceRecord:
    return record if record.think_ns >= 0 else TraceRecord(record.arrival_ns - origin_ns, *record[1:])
