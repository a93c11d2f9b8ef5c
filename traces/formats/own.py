"""The project's own format, `schedlab`: one request a row, as CSV or JSONL. Field names are those of `TraceRecord`.

| field | meaning | absent |
| --- | --- | --- |
| arrival_ns | nanoseconds since the start of the trace, >= 0 | required |
| prompt_tokens | >= 1 | required |
| output_tokens | >= 0 | required |
| session, turn | the conversation and the request's place in it, from 0 | "", 0 |
| think_ns | gap from the end of the turn before (closed loop); arrival_ns is then 0 | -1, open loop |
| tenant, priority | who pays; lower is more important | "", 0 |
| max_tokens | the request's own limit | -1, none |
| hash_ids | ids of the prompt's leading blocks: a JSON list; in CSV with spaces between, `-` if empty | none |
| hash_block_tokens | tokens in each such block | 0 |

CSV has a header line with any subset of the columns in any order; an empty cell is an absent field. JSONL leaves
absent fields out. Any other field is refused. UTF-8, with or without a byte-order mark, any line end, `.gz` or not.
Empty lines are skipped, and lines above the rows that begin with `#`; what schedlab writes says there where the rows
come from (see `traces.mark`; in JSONL an object of its own).
"""

from __future__ import annotations

from collections.abc import Iterator

from traces.detect import Head
from traces.fields import (
    BIGGEST,
    COMMENT,
    SHIFT,
    Place,
    cells,
    columns_of,
    count,
    data_lines,
    ids,
    json_object,
    text,
    whole,
)
from traces.file_trace import Format
from traces.mark import is_mark
from traces.options import ReadOptions
from traces.record import TraceRecord
from traces.report import ReadReport
from traces.source import Source

FIELDS = TraceRecord._fields
REQUIRED = FIELDS[:3]


def read_csv(source: Source, options: ReadOptions, report: ReadReport) -> Iterator[TraceRecord]:
    """Records of the CSV form, in file order."""
    with source.text() as lines:
        place = Place(source.name)
        columns: list[str] = []
        started: dict[str, None] = {}
        plain = False
        kept = 0
        for place.line, line in enumerate(lines, 1):
            try:
                if not plain:
                    raise ValueError
                arrival_text, prompt_text, output_text = line.split(",")
                arrival, prompt, output = int(arrival_text), int(prompt_text), int(output_text)
                if not (0 <= arrival < BIGGEST and 1 <= prompt < BIGGEST and 0 <= output < BIGGEST):
                    raise ValueError
                record = TraceRecord(arrival, prompt, output)
            except ValueError:
                if not line.strip():
                    continue
                if not columns and line.startswith(COMMENT):
                    continue
                if not columns:
                    columns = _columns(place, line)
                    plain = columns == list(REQUIRED)
                    continue
                record = _from_cells(place, columns, cells(line), options, started)
            kept += 1
            yield record
        report.rows_read += kept
        report.rows_kept += kept


def read_jsonl(source: Source, options: ReadOptions, report: ReadReport) -> Iterator[TraceRecord]:
    """Records of the JSONL form, in file order."""
    with source.text() as lines:
        place = Place(source.name)
        started: dict[str, None] = {}
        kept = 0
        for line in data_lines(lines, place):
            if not kept and is_mark(line):
                continue
            row = json_object(place, line)
            _refuse_unknown(place, list(row))
            if "hash_ids" in row:
                row["hash_ids"] = ids(place, "hash_ids", row["hash_ids"])
            kept += 1
            yield _from_row(place, row, options, started)
        report.rows_read += kept
        report.rows_kept += kept


def _columns(place: Place, line: str) -> list[str]:
    columns = columns_of(place, line)
    _refuse_unknown(place, columns)
    return columns


def _refuse_unknown(place: Place, names: list[str]) -> None:
    unknown = [name for name in names if name not in FIELDS]
    if unknown:
        place.refuse(unknown[0], f"is not a field of the schedlab format; known: {', '.join(FIELDS)}")


def _from_cells(
    place: Place, columns: list[str], values: list[str], options: ReadOptions, started: dict[str, None]
) -> TraceRecord:
    if len(values) != len(columns):
        place.refuse("row", f"{len(values)} cells, the header has {len(columns)}")
    row: dict[str, object] = {name: value for name, value in zip(columns, values, strict=True) if value.strip()}
    if "hash_ids" in row:
        listed = str(row["hash_ids"]).strip()
        row["hash_ids"] = tuple(count(place, "hash_ids", item) for item in listed.split()) if listed != "-" else ()
    return _from_row(place, row, options, started)


def _from_row(place: Place, row: dict[str, object], options: ReadOptions, started: dict[str, None]) -> TraceRecord:
    """The record of a row. `started` keeps the sessions whose first turn has been read."""
    for name in REQUIRED:
        if name not in row:
            place.refuse(name, "is missing")
    values: dict[str, object] = {}
    for name, value in row.items():
        if name in ("session", "tenant"):
            values[name] = text(place, name, value)
        elif name != "hash_ids":
            values[name] = whole(place, name, value)
    record = TraceRecord(**values, hash_ids=row.get("hash_ids"))  # type: ignore[arg-type]
    _check(place, record, options)
    if record.think_ns < 0 and record.session:
        started[record.session] = None
    elif record.think_ns >= 0 and record.session not in started:
        place.refuse("think_ns", f"session {record.session!r} has no turn with an arrival before this one")
    return record


def _check(place: Place, record: TraceRecord, options: ReadOptions) -> None:
    if record.arrival_ns < 0 and not options.shift_negative:
        place.refuse(
            "arrival_ns",
            f"{record.arrival_ns} is negative; {SHIFT}",
        )
    if record.prompt_tokens < 1:
        place.refuse("prompt_tokens", f"{record.prompt_tokens}, at least 1 is needed")
    for name, lowest in (
        ("output_tokens", 0),
        ("turn", 0),
        ("think_ns", -1),
        ("max_tokens", -1),
        ("hash_block_tokens", 0),
    ):
        if getattr(record, name) < lowest:
            place.refuse(name, f"{getattr(record, name)} is below {lowest}")
    if record.think_ns >= 0 and not record.session:
        place.refuse("session", "a row with think_ns needs the session whose turn it waits for")
    if record.hash_ids is not None:
        _check_ids(place, record, record.hash_ids)


def _check_ids(place: Place, record: TraceRecord, hash_ids: tuple[int, ...]) -> None:
    if record.hash_block_tokens < 1:
        place.refuse("hash_block_tokens", "is needed with hash_ids, at least 1")
    most = -(-record.prompt_tokens // record.hash_block_tokens)
    if len(hash_ids) > most:
        place.refuse("hash_ids", f"{len(hash_ids)} ids, but {record.prompt_tokens} prompt tokens fill {most} blocks")


def _matches_csv(head: Head) -> bool:
    return head.csv_with(*REQUIRED)


def _matches_jsonl(head: Head) -> bool:
    return head.json_with(*REQUIRED)


CSV = Format("schedlab-csv", "schedlab's own table (CSV)", _matches_csv, read_csv, closed_loop=None)
JSONL = Format("schedlab-jsonl", "schedlab's own table (JSONL)", _matches_jsonl, read_jsonl, closed_loop=None)
