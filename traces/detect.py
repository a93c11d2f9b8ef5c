"""What the first line of a file says: column names of a CSV, or field names of a JSON object."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace

from traces.fields import COMMENT, cells
from traces.mark import Mark, read_mark
from traces.source import Source

_LONGEST_HEAD_CHARS = 1 << 20
_FIELD = re.compile(r'"([A-Za-z_]\w*)"\s*:')


@dataclass(frozen=True)
class Head:
    """Names in the first line that is neither empty nor a comment. `json` tells fields of an object from columns of a
    table. `mark` is what stands above it in a trace that schedlab itself wrote.
    """

    json: bool
    names: frozenset[str]
    first_line: str
    mark: Mark | None = None

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
    """Look at the first line that is neither empty nor a comment; a file of comments alone has the first of them."""
    mark: Mark | None = None
    comment = ""
    with source.text() as lines:
        for line in iter(lambda: lines.readline(_LONGEST_HEAD_CHARS), ""):
            text = line.strip()
            found = None if mark else read_mark(source.name, text)
            if found:
                mark = found
            elif text.startswith(COMMENT):
                comment = comment or text
            elif text:
                return replace(_head_of(text, lines.read(4096)), mark=mark)
    return Head(False, frozenset(), comment, mark)


def _head_of(line: str, following: str) -> Head:
    if line[:1] not in "{[":
        return Head(False, frozenset(cell.strip() for cell in cells(line)), line)
    try:
        value = json.loads(line)
        names = list(value) if isinstance(value, dict) else []
    except (ValueError, RecursionError):
        names = _FIELD.findall(line + following)
    return Head(True, frozenset(names), line)
