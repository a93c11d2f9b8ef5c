"""Values of a row, checked. Every refusal names the file, the line and the field."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import IO, NoReturn

from schedlab.errors import UsageError

NS_PER_S = 1_000_000_000
BIGGEST = 1 << 62
COMMENT = "#"
# What to do about a trace that begins before its own zero.
SHIFT = "`schedlab trace convert IN OUT --shift-negative` starts the trace at 0"
_MOST_DIGITS = 18
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_SHOWN_CHARS = 60


class Place:
    """Where a row stands; made once per file, `line` moved on by the reader."""

    __slots__ = ("line", "source")

    def __init__(self, source: str, line: int = 0) -> None:
        self.source = source
        self.line = line

    def refuse(self, field: str, problem: str) -> NoReturn:
        """Raise the UsageError for a field of this row."""
        raise UsageError(f"{self.source}:{self.line}: {field}: {problem}")


def count(place: Place, field: str, value: object) -> int:
    """A token count, an id or another whole number >= 0, from text or a JSON number."""
    number = whole(place, field, value)
    if number < 0:
        place.refuse(field, f"{number} is negative")
    return number


def whole(place: Place, field: str, value: object) -> int:
    """A whole number of any sign; `12.0` is one, `12.5`, `nan`, `true` and an empty cell are not."""
    if type(value) is int:
        return value if -BIGGEST < value < BIGGEST else place.refuse(field, f"{_brief(value)} is out of range")
    exact = _exact(place, field, value)
    if exact != exact.to_integral_value():
        place.refuse(field, f"{_brief(value)} is not a whole number")
    return int(exact)


def duration_ns(place: Place, field: str, value: object, unit_ns: int) -> int:
    """A stamp or a duration in units of `unit_ns`, as nanoseconds; digits beyond the nanosecond are cut."""
    found = value * unit_ns if type(value) is int else int(_exact(place, field, value) * unit_ns)
    return found if -BIGGEST < found < BIGGEST else place.refuse(field, f"{_brief(value)} is out of range")


def _exact(place: Place, field: str, value: object) -> Decimal:
    if value is None or value == "":
        place.refuse(field, "is missing")
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        place.refuse(field, f"{_brief(repr(value))} is not a number")
    try:
        exact = Decimal(str(value).strip())
    except InvalidOperation:
        place.refuse(field, f"{_brief(repr(value))} is not a number")
    if not exact.is_finite() or exact.adjusted() > _MOST_DIGITS or abs(exact) >= BIGGEST:
        place.refuse(field, f"{_brief(value)} is out of range")
    return exact


def _brief(value: object) -> str:
    shown = str(value)
    return shown if len(shown) <= _SHOWN_CHARS else f"{shown[:_SHOWN_CHARS]}…"


def text(place: Place, field: str, value: object) -> str:
    """A name; numbers are taken as their digits."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        place.refuse(field, f"{_brief(repr(value))} is not a name")
    name = str(value)
    if not name.isascii() and _SURROGATE.search(name):
        place.refuse(field, f"{_brief(repr(name))} holds half a character (a lone surrogate); write it as UTF-8")
    return name


def ids(place: Place, field: str, value: object) -> tuple[int, ...]:
    """A list of whole numbers."""
    if not isinstance(value, list) or not all(type(item) is int for item in value):
        place.refuse(field, "is not a list of whole numbers")
    return tuple(value)


def cells(line: str) -> list[str]:
    """The cells of one CSV line, quotes taken off. Quotes that do not pair are part of their cell."""
    if '"' in line:
        try:
            return next(csv.reader([line.rstrip("\n")], strict=True), [])
        except csv.Error:
            return line.rstrip("\n").split(",")
    return line.rstrip("\n").split(",")


def columns_of(place: Place, line: str) -> list[str]:
    """The column names in a header line, as `read_head` reads them; a name that stands twice is refused."""
    columns = [name.strip() for name in cells(line.strip())]
    twice = next((name for at, name in enumerate(columns) if name in columns[:at]), None)
    if twice is not None:
        place.refuse(_brief(twice) or "header", "this column stands twice in the header; leave one out")
    return columns


def json_object(place: Place, line: str) -> dict[str, object]:
    """One line of JSONL."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{place.source}:{place.line}: not valid JSON ({error})") from error
    if not isinstance(value, dict):
        raise UsageError(f"{place.source}:{place.line}: a JSON object is expected, not {type(value).__name__}")
    return value


def required(place: Place, row: dict[str, object], field: str) -> object:
    """A field that the format cannot do without."""
    if field not in row:
        place.refuse(field, f"is missing; the row has {', '.join(row) or 'no fields'}")
    return row[field]


def data_lines(lines: IO[str], place: Place) -> Iterator[str]:
    """The lines of a file, `place` moved along; empty ones are skipped, and comments above the first."""
    begun = False
    for place.line, line in enumerate(lines, 1):
        if line.strip() and (begun or not line.startswith(COMMENT)):
            begun = True
            yield line


def json_rows(lines: IO[str], place: Place) -> Iterator[dict[str, object]]:
    """The objects of a JSONL file."""
    return (json_object(place, line) for line in data_lines(lines, place))


def csv_rows(lines: IO[str], place: Place) -> Iterator[dict[str, str]]:
    """The rows of a CSV file by column name; a row of another width is refused."""
    columns: list[str] = []
    for line in data_lines(lines, place):
        if not columns:
            columns = columns_of(place, line)
            continue
        values = cells(line)
        if len(values) != len(columns):
            place.refuse("row", f"{len(values)} cells, the header has {len(columns)}")
        yield dict(zip(columns, values, strict=True))


def stamp_ns(place: Place, field: str, value: object, unit_ns: int, shift_negative: bool) -> int:
    """A stamp counted from the trace's own zero; a negative one is refused unless the trace is to be shifted."""
    stamp = duration_ns(place, field, value, unit_ns)
    if stamp < 0 and not shift_negative:
        place.refuse(field, f"{value} is negative; {SHIFT}")
    return stamp


def block_ids(
    place: Place, value: object, prompt_tokens: int, block_tokens: int, partial_last: bool
) -> tuple[int, ...]:
    """The ids of a prompt's blocks; another number of them than the prompt has blocks is refused."""
    found = ids(place, "hash_ids", value)
    expected = -(-prompt_tokens // block_tokens) if partial_last else prompt_tokens // block_tokens
    if len(found) != expected:
        place.refuse(
            "hash_ids", f"{len(found)} ids, {prompt_tokens} tokens need {expected} (one for {block_tokens} tokens)"
        )
    return found
