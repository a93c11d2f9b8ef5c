"""A trace made from another one by a function on its stream of records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from traces.lineage import Lineage
from traces.record import TraceRecord
from traces.report import ReadReport
from traces.trace import Trace, TraceStats, scan_records

Step = Callable[[Iterator[TraceRecord], ReadReport], Iterator[TraceRecord]]
Block = list[TraceRecord]


class Derived:
    """The records of `base` after `step`, which keeps their order and counts in the report what it takes away or
    changes. `doing` says what it does: `keeping the first 5 rows`.

    The sha256 stays that of the original bytes. See `Trace` for the contract.
    """

    def __init__(self, base: Trace, step: Step, doing: str) -> None:
        self.name = base.name
        self.format = base.format
        self.is_model = base.is_model
        self._base = base
        self._step = step
        self._doing = doing
        self._stats: TraceStats | None = None
        self._report: ReadReport | None = None

    @property
    def sha256(self) -> str:
        """That of the original."""
        return self._base.sha256

    @property
    def closed_loop(self) -> bool:
        """As the original."""
        return self._base.closed_loop

    @property
    def lineage(self) -> Lineage:
        """That of the original, and this step."""
        return self._base.lineage.then(self._doing)

    @property
    def report(self) -> ReadReport:
        """The report of the original, with what the step took away as dropped rows."""
        self.scan()
        assert self._report is not None
        return self._report

    def scan(self) -> TraceStats:
        """The facts after the step, from one pass; later calls cost nothing."""
        if self._stats is None:
            report = copied(self._base.report)
            stats = scan_records(self._step(self._base.records(), report))
            report.rows_kept = stats.rows
            self._stats, self._report = stats, report
        return self._stats

    def records(self) -> Iterator[TraceRecord]:
        """A fresh pass."""
        return self._step(self._base.records(), copied(self._base.report))


def copied(report: ReadReport) -> ReadReport:
    """A report that can be counted on without touching the original."""
    return replace(report, dropped=dict(report.dropped), notes=list(report.notes))


def blocks(records: Iterable[TraceRecord]) -> Iterator[Block]:
    """A request with a stamp of its own, together with the later turns that wait for it."""
    block: Block = []
    for record in records:
        if record.think_ns < 0 and block:
            yield block
            block = []
        block.append(record)
    if block:
        yield block
