"""A run's progress on standard error: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from experiments.watch import Progress, Show
from reports.units import duration, number

PATIENCE_S = 2.0
SECONDS_BETWEEN_LINES = 5.0


def simulated(now: Progress) -> str:
    """Simulated time, wall time and output tokens per second of wall time."""
    return f"simulated {duration(now.simulated_ns / 1e9)} in {measured(now)}"


def recorded(now: Progress) -> str:
    """The same of a run that was recorded and is played again."""
    return f"recorded {duration(now.simulated_ns / 1e9)} in {measured(now)}"


def measured(now: Progress) -> str:
    """The same of a run on real time."""
    rate = number(round(now.output_tokens / now.wall_s)) if now.wall_s else "0"
    return f"{duration(now.wall_s)}, {rate} tokens/s"


@contextmanager
def progress(
    total: int, name: str = "replay", figures: Callable[[Progress], str] = simulated, what: str = "requests"
) -> Iterator[Show]:
    """Whom to tell how far a run of `total` requests (or `what` it is) has come; `figures` is what to say of it."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines(name, figures, what)
        return
    columns = (
        TextColumn(name),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[figures]}"),
        TextColumn("ETA"),
        TimeRemainingColumn(),
    )
    with RichProgress(*columns, console=console, transient=True, auto_refresh=False) as bar:
        task = bar.add_task(name, total=total, figures="")

        def show(now: Progress) -> None:
            bar.update(task, completed=now.done, figures=figures(now), refresh=True)

        yield show


class _Lines:
    """Nothing from a run that is over in two seconds."""

    def __init__(self, name: str, figures: Callable[[Progress], str], what: str) -> None:
        self._name, self._figures, self._what = name, figures, what
        self._next_s = PATIENCE_S

    def __call__(self, now: Progress) -> None:
        if now.wall_s >= self._next_s:
            self._next_s = now.wall_s + SECONDS_BETWEEN_LINES
            left_s = now.wall_s / now.done * (now.total - now.done) if now.done else None
            ending = "" if left_s is None else f", about {duration(left_s)} left"
            print(
                f"{self._name}: {now.done:,} of {now.total:,} {self._what}, {self._figures(now)}{ending}",
                file=sys.stderr,
            )
