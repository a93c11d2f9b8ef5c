"""Write a trace in the project's own format (see `traces.formats.own`); reading it back gives the same records."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from schedlab.errors import UsageError
from traces.fields import COMMENT
from traces.formats.own import FIELDS, REQUIRED
from traces.mark import mark_of
from traces.record import TraceRecord
from traces.trace import Trace

_DEFAULTS = TraceRecord(0, 1, 0)
Watch = Callable[[Iterable[TraceRecord], int], Iterable[TraceRecord]]


def write_trace(trace: Trace, path: Path, watch: Watch = lambda records, rows: records) -> int:
    """Write `path`, whose name ends in .csv or .jsonl, with .gz behind it or not; returns the rows written.

    The file appears under its name only when it is whole. UsageError for another ending, or a place that cannot be
    written.
    """
    ending = path.suffixes[-2:-1] if path.suffix == ".gz" else path.suffixes[-1:]
    if ending not in ([".csv"], [".jsonl"]):
        raise UsageError(f"{path}: the name of a trace to write must end in .csv, .jsonl, .csv.gz or .jsonl.gz")
    rows, columns = _used_columns(trace.records())
    mark = mark_of(trace)
    with _replacing(path) as out:
        if ending == [".jsonl"]:
            out.write(f"{mark}\n")
            write_rows(watch(trace.records(), rows), out)
        else:
            out.write(f"{COMMENT} {mark}\n")
            _write_csv(watch(trace.records(), rows), columns, out)
    return rows


@contextmanager
def _replacing(path: Path) -> Iterator[IO[str]]:
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("wb") as raw:
            binary = gzip.GzipFile(fileobj=raw, mode="wb", filename="", mtime=0) if path.suffix == ".gz" else raw
            with io.TextIOWrapper(binary, encoding="utf-8", newline="\n") as out:
                yield out
        partial.replace(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror or error})") from error
    finally:
        with suppress(OSError):
            partial.unlink()


def _used_columns(records: Iterable[TraceRecord]) -> tuple[int, list[str]]:
    """The number of rows, and the columns that hold anything but their default, in the order of the fields."""
    used = set(range(len(REQUIRED)))
    rows = 0
    for record in records:
        rows += 1
        if record[len(REQUIRED) :] != _DEFAULTS[len(REQUIRED) :]:
            used |= {at for at in range(len(REQUIRED), len(FIELDS)) if record[at] != _DEFAULTS[at]}
    return rows, [name for at, name in enumerate(FIELDS) if at in used]


def _write_csv(records: Iterable[TraceRecord], columns: list[str], out: IO[str]) -> None:
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    if columns == list(REQUIRED):
        writer.writerows(record[: len(REQUIRED)] for record in records)
        return
    places = [FIELDS.index(name) for name in columns]
    writer.writerows([_cell(record, at) for at in places] for record in records)


def _cell(record: TraceRecord, at: int) -> object:
    value = record[at]
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "-"
    if isinstance(value, str) and (value != value.strip() or not value.isprintable()):
        raise UsageError(f"{FIELDS[at]} {value!r} cannot stand in a CSV cell; write JSONL instead")
    return "" if at >= len(REQUIRED) and value == _DEFAULTS[at] else value


def write_rows(records: Iterable[TraceRecord], out: IO[str]) -> None:
    """The JSONL form of records, a line each."""
    for record in records:
        row = {
            name: value
            for at, (name, value) in enumerate(zip(FIELDS, record, strict=True))
            if at < len(REQUIRED) or value != _DEFAULTS[at]
        }
        out.write(json.dumps(row, separators=(",", ":"), ensure_ascii=False) + "\n")
