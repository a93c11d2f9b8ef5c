"""A trace in a file: passes over its reader, put in order of arrival."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from schedlab.errors import UsageError
from traces.detect import Head
from traces.lineage import Lineage
from traces.mark import Mark
from traces.options import ReadOptions
from traces.record import TraceRecord
from traces.report import ReadReport
from traces.source import Source
from traces.trace import TraceStats, checked_span, scan_records

Reader = Callable[[Source, ReadOptions, ReadReport], Iterator[TraceRecord]]


@dataclass(frozen=True)
class Format:
    """A known format: how it is told from its first line, and how it is read.

    The reader yields records in file order, stamps counted from the first row (formats with a wall clock) or from the
    trace's own zero; only the former may be negative, unless `shift_negative` asks for it. `closed_loop` None means
    that the rows decide.
    """

    name: str
    title: str
    matches: Callable[[Head], bool]
    read: Reader
    closed_loop: bool | None = False
    is_model: bool = False
    refusal: str = ""


class FileTrace:
    """A file with one of the known formats; see `Trace` for the contract."""

    def __init__(self, source: Source, kind: Format, options: ReadOptions, mark: Mark | None = None) -> None:
        self.name = source.name if source.name == "stdin" else source.path.name
        self.format = kind.name
        self.is_model = kind.is_model or (mark is not None and mark.is_model)
        if kind.refusal:
            raise UsageError(f"{source.name}: {kind.refusal}")
        self._source = source
        self._kind = kind
        self._options = options
        self._mark = mark
        self._sha256 = ""
        self._stats: TraceStats | None = None
        self._report: ReadReport | None = None
        self._shift_ns = 0

    @property
    def sha256(self) -> str:
        """SHA-256 of the bytes as given."""
        if not self._sha256:
            self._sha256 = self._source.sha256()
        return self._sha256

    @property
    def closed_loop(self) -> bool:
        """Whether later turns wait for the turn before them."""
        known = self._kind.closed_loop
        return self.scan().closed_loop if known is None else known

    @property
    def lineage(self) -> Lineage:
        """As the file itself says; else the file is the source."""
        stated = self._mark.lineage if self._mark else None
        return stated or Lineage(self.name, self.sha256)

    @property
    def report(self) -> ReadReport:
        """What happened to the rows in the last complete pass."""
        self.scan()
        assert self._report is not None
        return self._report

    def scan(self) -> TraceStats:
        """The facts of the trace, from one pass; later calls cost nothing."""
        if self._stats is None:
            report = self._new_report()
            raw = scan_records(self._kind.read(self._source, self._options, report))
            self._refuse_disorder(checked_span(self._source.name, raw))
            self._shift_ns = max(0, -raw.first_ns)
            report.reordered_rows = raw.reordered_rows
            self._report = report
            self._stats = replace(raw, first_ns=raw.first_ns + self._shift_ns, last_ns=raw.last_ns + self._shift_ns)
        return self._stats

    def records(self) -> Iterator[TraceRecord]:
        """A fresh pass in order of arrival. A sorted file streams; one out of order is held in memory and sorted."""
        stats = self.scan()
        raw = self._kind.read(self._source, self._options, self._new_report())
        if self._shift_ns:
            raw = _shifted(raw, self._shift_ns)
        return iter(_in_order(list(raw))) if stats.reordered_rows or stats.scattered_turns else raw

    def _new_report(self) -> ReadReport:
        return ReadReport(self.format, self._source.name, notes=list(self._mark.notes if self._mark else ()))

    def _refuse_disorder(self, raw: TraceStats) -> None:
        if raw.reordered_rows and self._options.strict:
            problem = f"{raw.reordered_rows} rows arrive before the row above them"
            raise UsageError(f"{self._source.name}: {problem}; sort the file, or read it without strict")


def _shifted(records: Iterator[TraceRecord], shift_ns: int) -> Iterator[TraceRecord]:
    for record in records:
        yield record if record.think_ns >= 0 else record._replace(arrival_ns=record.arrival_ns + shift_ns)


def _in_order(records: list[TraceRecord]) -> list[TraceRecord]:
    """Stable by arrival; a later turn without a stamp goes right behind the turns of its session."""
    starts: dict[str, tuple[int, int]] = {}
    keys: list[tuple[int, int]] = []
    for row, record in enumerate(records):
        key = (record.arrival_ns, row) if record.think_ns < 0 else starts.get(record.session, (0, row))
        if record.think_ns < 0 and record.session:
            starts[record.session] = key
        keys.append(key)
    return [records[row] for row in sorted(range(len(records)), key=keys.__getitem__)]
