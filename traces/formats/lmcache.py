"""Agent traces of LMCache (LMCache/lmcache-agent-trace, Apache-2.0) as a table without text.

JSONL with session_id, file_order, timestamp_us (epoch), input_length, output_length and hash_ids of 64-token blocks,
ceil(input_length / 64) of them. Stamps go back inside a session, so rows are put in order. When a call ended is not
recorded, so think times are unknown and the replay is open loop. The first row of the file is time 0 until rows
before it are found. Rows with an empty prompt are dropped; an output of 0 tokens (tool calls without text) is kept.
"""

from __future__ import annotations

from collections.abc import Iterator

from traces.detect import Head
from traces.fields import Place, block_ids, count, duration_ns, json_rows, required, text
from traces.file_trace import Format
from traces.options import ReadOptions
from traces.record import TraceRecord
from traces.report import ReadReport
from traces.source import Source

BLOCK_TOKENS = 64
NS_PER_US = 1_000


def matches(head: Head) -> bool:
    """Told by the microsecond stamp."""
    return head.json_with("session_id", "file_order", "timestamp_us", "input_length")


def read(source: Source, options: ReadOptions, report: ReadReport) -> Iterator[TraceRecord]:
    """Records in file order, stamps counted from the first row."""
    origin: int | None = None
    with source.text() as lines:
        place = Place(source.name)
        for row in json_rows(lines, place):
            report.rows_read += 1
            now = duration_ns(place, "timestamp_us", required(place, row, "timestamp_us"), NS_PER_US)
            origin = now if origin is None else origin
            prompt = count(place, "input_length", required(place, row, "input_length"))
            hash_ids = block_ids(place, required(place, row, "hash_ids"), prompt, BLOCK_TOKENS, partial_last=True)
            if not prompt:
                report.drop("empty prompt")
                continue
            report.rows_kept += 1
            yield TraceRecord(
                now - origin,
                prompt,
                count(place, "output_length", required(place, row, "output_length")),
                text(place, "session_id", required(place, row, "session_id")),
                count(place, "file_order", required(place, row, "file_order")),
                hash_ids=hash_ids,
                hash_block_tokens=BLOCK_TOKENS,
            )
    report.note("open loop by the recorded stamps: ends of calls, and so think times, are not recorded")


FORMAT = Format("lmcache", "LMCache agent trace as a table (JSONL)", matches, read)
