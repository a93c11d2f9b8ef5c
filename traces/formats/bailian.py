"""Qwen Bailian traces (Alibaba, Apache-2.0). No file of it was at hand: written from its public description.

JSONL with chat_id, parent_chat_id (-1: a first turn), timestamp (s), input_length, output_length, turn, type and
hash_ids of 16-token blocks. The session of a row is the chat that its chain of parents begins with. Whether a partial
last block has an id is not documented, so both counts are accepted. Replayed open loop, by the stamps.
"""

from __future__ import annotations

from collections.abc import Iterator

from traces.detect import Head
from traces.fields import NS_PER_S, Place, count, ids, json_rows, required, stamp_ns, text
from traces.file_trace import Format
from traces.options import ReadOptions
from traces.record import TraceRecord
from traces.report import ReadReport
from traces.source import Source

BLOCK_TOKENS = 16


def matches(head: Head) -> bool:
    """Told by the chain of chats."""
    return head.json_with("chat_id", "parent_chat_id", "hash_ids")


def read(source: Source, options: ReadOptions, report: ReadReport) -> Iterator[TraceRecord]:
    """Records in file order."""
    chains: dict[str, tuple[str, int]] = {}
    orphans = 0
    with source.text() as lines:
        place = Place(source.name)
        for row in json_rows(lines, place):
            report.rows_read += 1
            chat = text(place, "chat_id", required(place, row, "chat_id"))
            parent = text(place, "parent_chat_id", required(place, row, "parent_chat_id"))
            orphans += parent != "-1" and parent not in chains
            root, before = chains.get(parent, (chat, -1))
            chains[chat] = root, before + 1
            arrival = stamp_ns(place, "timestamp", required(place, row, "timestamp"), NS_PER_S, options.shift_negative)
            prompt = count(place, "input_length", required(place, row, "input_length"))
            output = count(place, "output_length", required(place, row, "output_length"))
            if not prompt:
                report.drop("empty prompt")
                continue
            hash_ids = _ids(place, required(place, row, "hash_ids"), prompt)
            report.rows_kept += 1
            yield TraceRecord(
                arrival, prompt, output, root, before + 1, hash_ids=hash_ids, hash_block_tokens=BLOCK_TOKENS
            )
    if orphans:
        report.note(f"{orphans} later turns whose earlier turn is not in the file begin a session of their own")


def _ids(place: Place, value: object, prompt_tokens: int) -> tuple[int, ...]:
    found = ids(place, "hash_ids", value)
    full, all_blocks = prompt_tokens // BLOCK_TOKENS, -(-prompt_tokens // BLOCK_TOKENS)
    if len(found) not in (full, all_blocks):
        place.refuse("hash_ids", f"{len(found)} ids, {prompt_tokens} tokens need {all_blocks} or {full}")
    return found


FORMAT = Format("bailian", "Qwen Bailian trace (JSONL)", matches, read)
