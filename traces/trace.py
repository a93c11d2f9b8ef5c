"""A trace: something with records that can be streamed again and again, and facts about them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from schedlab.errors import UsageError
from traces.fields import BIGGEST
from traces.lineage import Lineage
from traces.record import TraceRecord
from traces.report import ReadReport


@dataclass(frozen=True)
class TraceStats:
    """Facts of one pass over a trace; times in nanoseconds, `span_ns` from the first to the last arrival stamp.

    `hash_block_tokens` is that of the last row with ids, `hash_block_sizes` are all that occur. `scattered_turns`
    counts later turns of a closed loop that do not follow their own session in the file; `one_priority` says that all
    rows have the same.
    """

    rows: int
    first_ns: int
    last_ns: int
    longest_prompt_tokens: int
    longest_output_tokens: int
    prompt_tokens: int
    output_tokens: int
    sessions: int
    has_hash_ids: bool
    hash_block_tokens: int
    hash_block_sizes: tuple[int, ...]
    closed_loop: bool
    reordered_rows: int
    scattered_turns: int
    one_priority: bool

    @property
    def span_ns(self) -> int:
        """From the first arrival to the last."""
        return self.last_ns - self.first_ns


class Trace(Protocol):
    """What every reader, generator and transform gives.

    `records()` starts a fresh pass. Records come in the order of their arrival, equal stamps in file order. In a
    closed-loop trace the later turns of a session follow its first turn directly, so that the order is that of the
    sessions' starts. `report` is that of a complete pass; asking for it before one makes one.
    """

    @property
    def name(self) -> str: ...
    @property
    def format(self) -> str: ...
    @property
    def sha256(self) -> str: ...
    @property
    def is_model(self) -> bool: ...
    @property
    def closed_loop(self) -> bool: ...
    @property
    def lineage(self) -> Lineage: ...
    @property
    def report(self) -> ReadReport: ...
    def records(self) -> Iterator[TraceRecord]: ...
    def scan(self) -> TraceStats: ...


def checked_span(name: str, stats: TraceStats) -> TraceStats:
    """The same facts. UsageError for a trace that spans more time than the simulated clock can count."""
    if max(stats.span_ns, stats.last_ns) >= BIGGEST:
        raise UsageError(
            f"{name}: the last request arrives {stats.span_ns} ns after the first, and a trace may span 146 years "
            f"({BIGGEST} ns): look for a stamp in another unit, or for a rate that is too low"
        )
    return stats


def scan_records(records: Iterable[TraceRecord]) -> TraceStats:
    """The facts of a stream in file order. Only records with a stamp of their own count for times and order."""
    rows = prompts = outputs = longest_prompt = longest_output = reordered = scattered = block_tokens = 0
    before = ""
    top: int | None = None
    several_priorities = False
    first: int | None = None
    last = previous = 0
    hashed = closed = False
    sessions: dict[str, None] = {}
    block_sizes: dict[int, None] = {}
    for arrival, prompt, output, session, _, think, _, priority, _, hash_ids, hash_block in records:
        rows += 1
        prompts += prompt
        outputs += output
        if prompt > longest_prompt:
            longest_prompt = prompt
        if output > longest_output:
            longest_output = output
        if priority != top:
            several_priorities |= top is not None
            top = priority
        if session:
            sessions[session] = None
        if hash_ids is not None:
            hashed, block_tokens = True, hash_block
            block_sizes[hash_block] = None
        if think >= 0:
            closed = True
            scattered += session != before
            continue
        before = session
        if first is None:
            first = last = arrival
        elif arrival < previous:
            reordered += 1
            first = min(first, arrival)
        elif arrival > last:
            last = arrival
        previous = arrival
    return TraceStats(
        rows=rows,
        first_ns=first or 0,
        last_ns=last,
        longest_prompt_tokens=longest_prompt,
        longest_output_tokens=longest_output,
        prompt_tokens=prompts,
        output_tokens=outputs,
        sessions=len(sessions),
        has_hash_ids=hashed,
        hash_block_tokens=block_tokens,
        hash_block_sizes=tuple(block_sizes),
        closed_loop=closed,
        reordered_rows=reordered,
        scattered_turns=scattered,
        one_priority=not several_priorities,
    )
