"""Make a trace of several, or a new one of the pieces of another."""

from __future__ import annotations

import hashlib
import heapq
import random
from collections.abc import Iterator, Sequence

from schedlab.errors import UsageError
from traces.generators.params import check_draw
from traces.lineage import Lineage
from traces.record import TraceRecord
from traces.report import ReadReport
from traces.trace import Trace, TraceStats, scan_records
from traces.transforms.derived import Block, Derived, blocks
from traces.words import counted


class Merged:
    """Several traces on one clock, in order of arrival; equal stamps in the order of the traces. See `Trace` for the
    contract.

    Session names are kept apart by the number of their trace, block ids by a range of their own.
    """

    def __init__(self, traces: Sequence[Trace]) -> None:
        self.name = "+".join(trace.name for trace in traces)
        self.format = "merge"
        self.is_model = any(trace.is_model for trace in traces)
        self._traces = traces
        self._stats: TraceStats | None = None

    @property
    def sha256(self) -> str:
        """SHA-256 over the sha256 of each trace, a line each."""
        return hashlib.sha256("".join(f"{trace.sha256}\n" for trace in self._traces).encode()).hexdigest()

    @property
    def closed_loop(self) -> bool:
        """Whether any of them is."""
        return any(trace.closed_loop for trace in self._traces)

    @property
    def lineage(self) -> Lineage:
        """The merge is a source of its own; what was done to its parts before stands with their names."""
        parts = [(trace.name, trace.lineage, trace.is_model) for trace in self._traces]
        names = [f"{name} ({one.title(is_model)})" if one.steps else one.name for name, one, is_model in parts]
        return Lineage(" + ".join(names), self.sha256, ("merging them",))

    @property
    def report(self) -> ReadReport:
        """The sum of their reports."""
        total = ReadReport(self.format, self.name)
        for report in (trace.report for trace in self._traces):
            total.rows_read += report.rows_read
            total.rows_kept += report.rows_kept
            total.reordered_rows += report.reordered_rows
            for reason, rows in report.dropped.items():
                total.drop(reason, rows)
            for note in report.notes:
                total.note(note)
        return total

    def scan(self) -> TraceStats:
        """The facts of the whole, from one pass; later calls cost nothing."""
        if self._stats is None:
            self._stats = scan_records(self.records())
        return self._stats

    def records(self) -> Iterator[TraceRecord]:
        """A fresh pass."""
        streams = [_own_blocks(trace, number, len(self._traces)) for number, trace in enumerate(self._traces)]
        for block in heapq.merge(*streams, key=lambda block: block[0].arrival_ns):
            yield from block


def merge(traces: Sequence[Trace]) -> Trace:
    """One trace of all; see `Merged`."""
    if not traces:
        raise UsageError("merge: no trace given")
    return Merged(traces)


def _own_blocks(trace: Trace, number: int, traces: int) -> Iterator[Block]:
    for block in blocks(trace.records()):
        yield [
            record._replace(
                session=f"{number}:{record.session}" if record.session else "",
                hash_ids=record.hash_ids and tuple(block_id * traces + number for block_id in record.hash_ids),
            )
            for record in block
        ]


def resample(trace: Trace, rows: int, seed: int) -> Trace:
    """A bootstrap: requests drawn with replacement, each with the gap before it, until there are `rows` of them.

    A session of a closed loop is drawn whole, under a new name, so that the last one may exceed `rows` by its turns.
    In an open loop sessions lose their meaning and are left out. Structure beyond one gap (long bursts) is lost. The
    result is a modelled trace.
    """
    check_draw(rows, seed)

    def step(records: Iterator[TraceRecord], report: ReadReport) -> Iterator[TraceRecord]:
        pieces = list(_with_gaps(records))
        report.note(f"modelled, not original: a bootstrap of {counted(report.rows_kept, 'row')} with seed {seed}")
        report.dropped.clear()
        generator = random.Random(seed)
        now = drawn = 0
        while pieces and drawn < rows:
            gap, block = pieces[generator.randrange(len(pieces))]
            now += gap
            yield from _redrawn(block, now, drawn)
            drawn += len(block)
        report.rows_read = drawn

    derived = Derived(trace, step, f"drawing {counted(rows, 'row')} anew with seed {seed}")
    derived.is_model = True
    return derived


def _with_gaps(records: Iterator[TraceRecord]) -> Iterator[tuple[int, Block]]:
    before = 0
    for block in blocks(records):
        yield block[0].arrival_ns - before, block
        before = block[0].arrival_ns


def _redrawn(block: Block, arrival_ns: int, number: int) -> Iterator[TraceRecord]:
    first = block[0]
    whole = len(block) > 1
    for record in block:
        yield record._replace(
            arrival_ns=arrival_ns if record is first else 0,
            session=f"{record.session}#{number}" if whole else "",
            turn=record.turn if whole else 0,
        )
