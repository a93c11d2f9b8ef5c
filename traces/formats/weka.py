"""Claude Code sessions recorded by kv-cache-tester (callanjfox/kv-cache-tester, Apache-2.0): one JSON file a session,
or a folder of them.

Each request has t (s since the start of its session), in, out, hash_ids (64-token blocks, floor(in / 64) of them: a
partial last block has no id), think_time and mostly api_time (s). Ids mean something inside one file only, so each
file gets a range of its own. Closed loop. Sessions have no common clock: they start `session_gap_ns` apart in the
order of the file names. A "subagent" entry is no request but a session of its own inside the ids of its parent; it
starts t after the start of its parent, whatever the parent does in the replay. A turn without think_time gets the gap
from the end of the turn before it, or from its start where that end is unknown; the report counts both.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from schedlab.errors import UsageError
from traces.detect import Head
from traces.fields import NS_PER_S, Place, block_ids, count, duration_ns, required
from traces.file_trace import Format
from traces.options import ReadOptions
from traces.record import TraceRecord
from traces.report import ReadReport
from traces.source import Folder, Source

BLOCK_TOKENS = 64
Row = dict[str, object]


@dataclass(order=True)
class _Session:
    """The turns of one session, to be started at `start_ns`."""

    start_ns: int
    number: int
    turns: list[TraceRecord] = field(compare=False)


def matches(head: Head) -> bool:
    """Told by a block size with requests."""
    return head.json_with("block_size", "hash_id_scope")


def read(source: Source, options: ReadOptions, report: ReadReport) -> Iterator[TraceRecord]:
    """Sessions in the order of their starts, the turns of each together."""
    waiting: list[_Session] = []
    first_id = number = 0
    reader = _Reader(report)
    files = source.files if isinstance(source, Folder) else [source]
    for order, file in enumerate(files):
        start_ns = order * options.session_gap_ns
        while waiting and waiting[0].start_ns < start_ns:
            yield from heapq.heappop(waiting).turns
        for session in reader.sessions(file, start_ns, first_id, number):
            heapq.heappush(waiting, session)
            number += 1
        first_id = reader.next_id
    while waiting:
        yield from heapq.heappop(waiting).turns
    reader.note(len(files), options)


class _Reader:
    """Reads files one by one; keeps the counts that the report needs."""

    def __init__(self, report: ReadReport) -> None:
        self.next_id = 0
        self._report = report
        self._agents = self._agent_rows = self._computed = self._from_start = 0

    def sessions(self, file: Source, start_ns: int, first_id: int, number: int) -> Iterator[_Session]:
        """The session of a file and those of its sub-agents."""
        document = _document(file)
        if document.get("block_size") != BLOCK_TOKENS:
            raise UsageError(f"{file.name}: block_size is {document.get('block_size')}, {BLOCK_TOKENS} is expected")
        name = str(document.get("id") or file.path.name).encode(errors="replace").decode()
        place = Place(f"{file.name}: request")
        entries = _entries(file, document)
        agents = [(line, entry) for line, entry in enumerate(entries, 1) if entry.get("type") == "subagent"]
        own = [(line, entry) for line, entry in enumerate(entries, 1) if entry.get("type") != "subagent"]
        yield _Session(start_ns, number, self._turns(place, own, name, start_ns, first_id))
        for nth, (line, entry) in enumerate(agents, 1):
            place.line = line
            begin_ns = start_ns + duration_ns(place, "t", required(place, entry, "t"), NS_PER_S)
            inner = list(enumerate(_entries(file, entry), 1))
            agent = Place(f"{file.name}: request {line}: sub-request")
            self._agents += 1
            self._agent_rows += len(inner)
            title = f"{name}/{entry.get('agent_id') or nth}"
            yield _Session(begin_ns, number + nth, self._turns(agent, inner, title, begin_ns, first_id))

    def _turns(
        self, place: Place, entries: list[tuple[int, Row]], name: str, start_ns: int, first_id: int
    ) -> list[TraceRecord]:
        turns: list[TraceRecord] = []
        before: Row | None = None
        for place.line, row in entries:
            self._report.rows_read += 1
            prompt = count(place, "in", required(place, row, "in"))
            output = count(place, "out", required(place, row, "out"))
            found = block_ids(place, required(place, row, "hash_ids"), prompt, BLOCK_TOKENS, partial_last=False)
            if not prompt:
                self._report.drop("empty prompt")
                continue
            think = -1 if before is None else self._think_ns(place, before, row)
            hash_ids = tuple(first_id + number for number in found)
            self.next_id = max(self.next_id, max(hash_ids, default=-1) + 1)
            self._report.rows_kept += 1
            turns.append(
                TraceRecord(
                    start_ns if before is None else 0,
                    prompt,
                    output,
                    name,
                    len(turns),
                    think,
                    hash_ids=hash_ids,
                    hash_block_tokens=BLOCK_TOKENS,
                )
            )
            before = row
        return turns

    def _think_ns(self, place: Place, before: Row, row: Row) -> int:
        if row.get("think_time") is not None:
            think = duration_ns(place, "think_time", row["think_time"], NS_PER_S)
            return think if think >= 0 else place.refuse("think_time", f"{row['think_time']} is negative")
        begin = duration_ns(place, "t", required(place, row, "t"), NS_PER_S)
        end = duration_ns(place, "t", required(place, before, "t"), NS_PER_S)
        if before.get("api_time") is None:
            self._from_start += 1
        else:
            self._computed += 1
            end += duration_ns(place, "api_time", before["api_time"], NS_PER_S)
        return max(0, begin - end)

    def note(self, files: int, options: ReadOptions) -> None:
        """Say what was decided for the trace."""
        gap_s = options.session_gap_ns / NS_PER_S
        if files > 1:
            self._report.note(
                f"no common clock: the sessions of {files} files start {gap_s:g} s apart in the order of the file names"
            )
        if self._agents:
            self._report.note(
                f"{self._agents} sub-agents with {self._agent_rows} requests are sessions of their own, "
                "started at their recorded offset from the parent's start"
            )
        if self._computed or self._from_start:
            self._report.note(
                f"turns without think_time: {self._computed} use the gap from the recorded end of the turn before, "
                f"{self._from_start} the gap from its start (no api_time)"
            )


def _document(file: Source) -> Row:
    with file.text() as lines:
        try:
            document = json.load(lines)
        except UnicodeDecodeError:
            raise
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{file.name}: not valid JSON ({error})") from error
    if not isinstance(document, dict):
        raise UsageError(f"{file.name}: a JSON object is expected")
    return document


def _entries(file: Source, holder: Row) -> list[Row]:
    entries = holder.get("requests")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise UsageError(f"{file.name}: requests: a list of requests is expected")
    return entries


FORMAT = Format(
    "weka", "Claude Code sessions of kv-cache-tester (JSON file or folder)", matches, read, closed_loop=True
)
