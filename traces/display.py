"""How `schedlab trace` talks to a person: tables, and a bar for what takes more than two seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar, cast

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from traces.catalogue import catalogue
from traces.summary import LEVELS, Summary
from traces.words import counted, printable

_PATIENCE_S = 2.0
_STRIDE = 1_000
_UNCUT_COLUMNS = 400
T = TypeVar("T")


def watched(items: Iterable[T], total: int, unit: str = "rows") -> Iterator[T]:
    """The same items; a progress bar on standard error appears when they take more than two seconds."""
    console = Console(stderr=True)
    started = time.monotonic()
    bar: Progress | None = None
    try:
        for done, item in enumerate(items):
            if (done % _STRIDE == 0 or total < _STRIDE) and time.monotonic() - started > _PATIENCE_S:
                bar = bar or _bar(console, total, unit)
                bar.update(bar.task_ids[0], completed=done)
            yield item
    finally:
        if bar:
            bar.stop()


@contextmanager
def patience(what: str) -> Iterator[None]:
    """A spinner on standard error while something without countable steps takes more than two seconds."""
    status = Console(stderr=True).status(what)
    timer = threading.Timer(_PATIENCE_S, status.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        status.stop()


def _bar(console: Console, total: int, unit: str) -> Progress:
    columns = (TextColumn(unit), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console, transient=True)
    bar.add_task(unit, total=total or None)
    bar.start()
    return bar


def show_summary(summary: Summary) -> None:
    """The summary as tables on standard output."""
    console = Console(file=sys.stdout, soft_wrap=True, highlight=False)
    identity = summary.trace
    heading = f"{identity['name']}: {identity['title']}, format {identity['format']}, {identity['loop']} loop"
    console.print(printable(heading), markup=False)
    console.print(f"sha256 {identity['sha256']}", markup=False)
    console.print(_facts(summary))
    console.print(_quantile_table(summary))
    for note in cast("list[str]", summary.report["notes"]):
        console.print(printable(f"note: {note}"), markup=False)


def _facts(summary: Summary) -> Table:
    report = summary.report
    table = Table(show_header=False, box=None)
    rows: list[tuple[str, str]] = [("rows read", f"{report['rows_read']:,}"), ("rows kept", f"{report['rows_kept']:,}")]
    rows += [
        (f"dropped: {reason}", f"{dropped:,}") for reason, dropped in cast("dict[str, int]", report["dropped"]).items()
    ]
    if report["reordered_rows"]:
        rows.append(("rows put in order", f"{report['reordered_rows']:,}"))
    rows += [
        ("span", f"{summary.span_s:,.1f} s"),
        ("sessions", f"{summary.sessions:,}"),
        ("prompt tokens", f"{summary.prompt_tokens:,}"),
        ("output tokens", f"{summary.output_tokens:,}"),
        ("CV of gaps", _number(summary.gap_cv)),
        ("fullest second", f"{counted(summary.peak_per_s, 'arrival')}, {_number(summary.peak_to_mean)} times the mean"),
    ]
    if summary.prefix and summary.prefix["input_tokens"]:
        share = 100 * summary.prefix["hit_tokens"] / summary.prefix["input_tokens"]
        rows.append(
            ("prefix, unlimited cache", f"{share:.2f} % of input tokens hit, {summary.prefix['blocks']:,} blocks")
        )
    for name, value in rows:
        table.add_row(name, value)
    return table


def _quantile_table(summary: Summary) -> Table:
    table = Table("", *[f"p{level}" for level in LEVELS[:-1]], "max")
    for name, values in summary.quantiles.items():
        table.add_row(name, *(["-"] * len(LEVELS) if values is None else [_number(value) for value in values.values()]))
    return table


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def show_catalogue() -> None:
    """The public traces that `fetch` knows; no cell is cut, however narrow the terminal."""
    table = Table("name", "files", "licence", "repository", "credit", box=box.SIMPLE_HEAD, pad_edge=False)
    for name, files in catalogue().items():
        repository = files[0].repository
        table.add_row(
            name, str(len(files)), repository.licence, f"https://github.com/{repository.at}", repository.credit
        )
    Console(file=sys.stdout, width=_UNCUT_COLUMNS).print(table)
