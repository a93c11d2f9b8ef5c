"""What the first line of a file says: column names of a CSV, or field names of a JSON object."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace

from schedlab.errors import UsageError
from traces.fields import cells
from traces.source import Source

_LONGEST_HEAD_CHARS = 1 << 20
MARK = "# "
MARK_FIELD = "schedlab_modelled"
_FIELD = re.compile(r'"([A-Za-z_]\w*)"\s*:')


@dataclass(frozen=True)
class Head:
    """Names in the first non-empty line. `json` tells fields of an object from columns of a table.

    `modelled` is None, or the notes of a trace that schedlab itself drew and wrote.
    """

    json: bool
    names: frozenset[str]
    first_line: str
    modelled: tuple[str, ...] | None = None

    def has(self, *names: str) -> bool:
        """Whether all these fields or columns are there."""
        return self.names.issuperset(names)

    def csv_with(self, *names: str) -> bool:
        """Whether it is a table with these columns."""
        return not self.json and self.has(*names)

    def json_with(self, *names: str) -> bool:
        """Whether it is a JSON object with these fields."""
        return self.json and self.has(*names)


def read_head(source: Source) -> Head:
    """Look at the first line that is not empty."""
    modelled: tuple[str, ...] | None = None
    with source.text() as lines:
        for line in iter(lambda: lines.readline(_LONGEST_HEAD_CHARS), ""):
            if not line.strip():
                continue
            if line.startswith(MARK) and modelled is None:
                modelled = _notes(source, line.removeprefix(MARK))
                continue
            head = _head_of(line.strip(), "")
            if not head.has(MARK_FIELD):
                return replace(_head_of(line.strip(), lines.read(4096)), modelled=modelled)
            modelled = _notes(source, line)
    return Head(False, frozenset(), "", modelled)


def _notes(source: Source, line: str) -> tuple[str, ...]:
    """The notes of a line that marks a modelled trace."""
    try:
        return tuple(str(note) for note in json.loads(line)[MARK_FIELD])
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{source.name}: {MARK_FIELD}: a list of notes is expected; leave the line out") from error


def _head_of(line: str, following: str) -> Head:
    if line[:1] not in "{[":
        return Head(False, frozenset(cell.strip() for cell in cells(line)), line)
    try:
        value = json.loads(line)
        names = list(value) if isinstance(value, dict) else []
    except ValueError:
        names = _FIELD.findall(line + following)
    return Head(True, frozenset(names), line)
