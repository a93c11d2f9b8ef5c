"""The line that `schedlab trace` writes above the rows of a file: where they come from.

A JSON object, in a CSV file behind `# `. Its first field says what the trace is and holds the notes of its reading:
`schedlab_modelled` was drawn, `schedlab_converted` comes from a recording. `source` (name, sha256) and `steps` (the
transforms since) follow; a model that was only drawn and what a server recorded itself have neither.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from schedlab.errors import UsageError
from traces.fields import COMMENT
from traces.lineage import Lineage
from traces.trace import Trace

MODELLED, CONVERTED = "schedlab_modelled", "schedlab_converted"
_MARK = re.compile(rf'(?:{COMMENT}\s*)?(\{{\s*"(?:{MODELLED}|{CONVERTED})".*)', re.DOTALL)


@dataclass(frozen=True)
class Mark:
    """What the line says; `lineage` is None where the file itself is the source."""

    is_model: bool
    notes: tuple[str, ...]
    lineage: Lineage | None


def is_mark(line: str) -> bool:
    """Whether a line is one, and no row and no comment of somebody else."""
    return _MARK.match(line) is not None


def read_mark(source: str, line: str) -> Mark | None:
    """None for any other line. UsageError for a damaged one, which must not turn a model into an original."""
    found = _MARK.match(line)
    if found is None:
        return None
    try:
        document = json.loads(found[1])
        is_model = MODELLED in document
        notes = document[MODELLED if is_model else CONVERTED]
        if not isinstance(notes, list):
            raise ValueError("a list of notes is expected")
        return Mark(is_model, tuple(map(str, notes)), _lineage(document) if "source" in document else None)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(f"{source}: the first line marks a trace of schedlab, but is damaged ({error})") from error


def _lineage(document: dict[str, Any]) -> Lineage:
    source = document["source"]
    return Lineage(str(source["name"]), str(source["sha256"]), tuple(map(str, document["steps"])), converted=True)


def mark_of(trace: Trace) -> str:
    """The line for a trace that is about to be written, as JSON."""
    document: dict[str, object] = {MODELLED if trace.is_model else CONVERTED: trace.report.notes}
    lineage = trace.lineage
    if lineage.steps or not trace.is_model:
        document["source"] = {"name": lineage.name, "sha256": lineage.sha256}
        document["steps"] = lineage.steps
    return json.dumps(document, ensure_ascii=False).encode(errors="replace").decode()


def recorded_mark(about: str) -> str:
    """The line for a server's own recording, as JSON."""
    return json.dumps({CONVERTED: [about]}, ensure_ascii=False).encode(errors="replace").decode()
