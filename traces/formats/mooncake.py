"""Mooncake traces (kvcache-ai/Mooncake, Apache-2.0; Qin et al., FAST 2025), and the same with sessions as Dynamo and
aiperf write it.

JSONL with `timestamp` (ms since the start), `input_length`, `output_length` and `hash_ids`: one id for each 512
tokens of the prompt, ceil(input_length / 512) of them, the last block partial. Another number of ids is refused,
since the prompt would not be the recorded one. `session_id` makes the row a turn of a session; a later turn has
`delay` (ms after the end of the turn before) and is replayed in closed loop.
"""

from __future__ import annotations

from collections.abc import Iterator

from traces.detect import Head
from traces.fields import Place, block_ids, count, duration_ns, json_rows, required, stamp_ns, text
from traces.file_trace import Format
from traces.options import ReadOptions
from traces.record import TraceRecord
from traces.report import ReadReport
from traces.source import Source

BLOCK_TOKENS = 512
NS_PER_MS = 1_000_000


def matches(head: Head) -> bool:
    """Told by lengths with a stamp or a delay, and by the absence of what other formats add."""
    timed = head.has("timestamp") or head.has("delay")
    return head.json_with("input_length", "output_length") and timed and not head.has("chat_id")


def read(source: Source, options: ReadOptions, report: ReadReport) -> Iterator[TraceRecord]:
    """Records in file order."""
    turns: dict[str, int] = {}
    with source.text() as lines:
        place = Place(source.name)
        for row in json_rows(lines, place):
            report.rows_read += 1
            prompt = count(place, "input_length", required(place, row, "input_length"))
            session = text(place, "session_id", row["session_id"]) if row.get("session_id") is not None else ""
            turn = turns.get(session, 0) if session else 0
            arrival, think = _times(place, row, turn, options)
            if not prompt:
                report.drop("empty prompt")
                continue
            hashed = row.get("hash_ids")
            hash_ids = None if hashed is None else block_ids(place, hashed, prompt, BLOCK_TOKENS, partial_last=True)
            turns[session] = turn + 1
            report.rows_kept += 1
            yield TraceRecord(
                arrival,
                prompt,
                count(place, "output_length", required(place, row, "output_length")),
                session,
                turn,
                think,
                hash_ids=hash_ids,
                hash_block_tokens=0 if hash_ids is None else BLOCK_TOKENS,
            )


def _times(place: Place, row: dict[str, object], turn: int, options: ReadOptions) -> tuple[int, int]:
    """arrival_ns and think_ns of a row: a later turn with a delay has no stamp of its own."""
    if turn and row.get("delay") is not None:
        think = duration_ns(place, "delay", row["delay"], NS_PER_MS)
        return (0, think) if think >= 0 else place.refuse("delay", f"{row['delay']} is negative")
    stamp = required(place, row, "timestamp")
    return stamp_ns(place, "timestamp", stamp, NS_PER_MS, options.shift_negative), -1


FORMAT = Format("mooncake", "Mooncake, Dynamo or aiperf trace (JSONL)", matches, read, closed_loop=None)
