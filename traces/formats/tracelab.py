"""TraceLab coding-agent traces (uw-syfi/TraceLab; data CC BY 4.0, SyFI Lab, University of Washington).

JSONL, one model call a row: session_id, round_index, input_tokens_total, output_tokens, timing_events[] with UTC
stamps. A call begins with the last of its leading input events (user_message, tool_result) and ends with its last
event; the think time of a later round is the gap between the end of the round before and its own beginning, 0 where
they overlap (counted in the report). Closed loop by session. The rows carry no block ids, so recorded cache hits
(prefix_tokens) are not reproduced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from traces.clock import wall_clock
from traces.detect import Head
from traces.fields import Place, count, json_rows, required, text
from traces.file_trace import Format
from traces.options import ReadOptions
from traces.record import TraceRecord
from traces.report import ReadReport
from traces.source import Source

_INPUT_EVENTS = ("user_message", "tool_result")


def matches(head: Head) -> bool:
    """Told by rounds with timing events."""
    return head.json_with("session_id", "round_index", "input_tokens_total", "timing_events")


def read(source: Source, options: ReadOptions, report: ReadReport) -> Iterator[TraceRecord]:
    """Records in file order, stamps counted from the first row."""
    clock = wall_clock()
    origin: int | None = None
    turns: dict[str, tuple[int, int]] = {}
    overlaps = 0
    with source.text() as lines:
        place = Place(source.name)
        for row in json_rows(lines, place):
            report.rows_read += 1
            start, end = _times(place, row, clock)
            origin = start if origin is None else origin
            session = text(place, "session_id", required(place, row, "session_id"))
            prompt = count(place, "input_tokens_total", required(place, row, "input_tokens_total"))
            output = count(place, "output_tokens", required(place, row, "output_tokens"))
            if not prompt:
                report.drop("empty prompt")
                continue
            turn, before = turns.get(session, (0, start))
            turns[session] = turn + 1, end
            overlaps += start < before
            report.rows_kept += 1
            if turn:
                yield TraceRecord(0, prompt, output, session, turn, max(0, start - before))
            else:
                yield TraceRecord(start - origin, prompt, output, session)
    report.note("recorded prefix_tokens are not reproduced: the rows have no block ids")
    if overlaps:
        report.note(f"{overlaps} rounds begin before the round before them ends; their think time is 0")


def _times(place: Place, row: dict[str, object], clock: Callable[[str], int]) -> tuple[int, int]:
    events = required(place, row, "timing_events")
    if not isinstance(events, list) or not events:
        place.refuse("timing_events", "a list with at least one event is expected")
    start = end = _stamp(place, events[0], clock)
    leading = True
    for event in events:
        end = _stamp(place, event, clock)
        leading = leading and event.get("event_type") in _INPUT_EVENTS
        start = end if leading else start
    return start, end


def _stamp(place: Place, event: object, clock: Callable[[str], int]) -> int:
    stamp = event.get("timestamp") if isinstance(event, dict) else None
    try:
        return clock(str(stamp))
    except (ValueError, IndexError):
        place.refuse("timing_events", f"{stamp!r} is not a stamp like 2026-06-01T05:40:20.151Z")


FORMAT = Format("tracelab", "TraceLab rounds (JSONL)", matches, read, closed_loop=True)
