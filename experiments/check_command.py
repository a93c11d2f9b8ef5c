"""`schedlab check` on a terminal, and `schedlab replay` of what it saved."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as RichProgress
from rich.table import Table
from rich.text import Text

from experiments.extras import need
from experiments.memory_bound import bounded_memory
from experiments.values import duration_ns
from reports.files import replace_file
from schedlab.errors import UsageError
from schedlab.policies.registry import find_policy
from schedlab.testing.actions import Script, Stage, play
from schedlab.testing.coverage import DECISIONS, MOVES
from schedlab.testing.judged import judged
from schedlab.testing.script_file import dumps, is_script, read
from schedlab.testing.ticks import Ticks

if TYPE_CHECKING:
    from schedlab.testing.check import Report, Show


class Shower(Protocol):
    """Is told how far a check has come."""

    def __call__(self, now: Show, /) -> None: ...


DEFAULT_EXAMPLES = 1000
MOST_EXAMPLES = 10_000_000
# Laws that were judged fewer times are named in a certificate.
SELDOM = 10
SECONDS_BETWEEN_LINES = 5.0
NS_PER_S = 1_000_000_000
# A policy that piles up without end is told so before it takes the machine's memory. A check itself needs 0.1 GiB.
MOST_BYTES = 2 << 30


def check_on_terminal(name: str, examples: int | None, time: str | None, seed: int, out: Path | None) -> bool:
    """Try to break a policy; print a certificate, or what broke with a file that shows it again. True if all held.

    Raises:
        UsageError: there is no such policy, it cannot be made, or the flags contradict one another.
    """
    if examples is not None and time is not None:
        raise UsageError("--examples and --time both say when to stop; give one of them")
    if examples is not None and not 1 <= examples <= MOST_EXAMPLES:
        raise UsageError(f"--examples is {examples}; give a number from 1 to {MOST_EXAMPLES}")
    if seed < 0:
        raise UsageError(f"--seed is {seed}; give 0 or more")
    time_s = duration_ns("--time", time) / NS_PER_S if time is not None else None
    if time_s is not None and time_s <= 0:
        raise UsageError(f"--time is {time}; give a time above 0")
    if is_script(Path(name)):
        raise UsageError(f"{name} shows how a law breaks: schedlab replay {name} --check; check takes a policy")
    policy = find_policy(name)
    path = out or Path(f"FAIL-{_plain(policy.name)}.json")
    _need_place(path)
    need("check", ["hypothesis"])
    from schedlab.testing.check import check_policy

    total = None if time_s is not None else examples or DEFAULT_EXAMPLES
    with _progress(total, time_s) as show, bounded_memory(MOST_BYTES):
        report = check_policy(policy, examples=total, time_s=time_s, seed_of=seed, show=show)
    console = Console(highlight=False, soft_wrap=True)
    if report.error is None:
        _print_certificate(console, name, report)
    else:
        _print_failure(console, name, report, path)
    # Not to standard output, which is the same whenever the seed is.
    print(f"check: {report.tally.num_examples:,} examples in {report.wall_s:.1f} s", file=sys.stderr)
    return report.error is None


def replay_script(path: Path, *, check: bool) -> None:
    """Run a saved script again and print it tick by tick.

    Raises:
        UsageError: it is no script, or its policy cannot be found.
        InvariantViolation: the law that it breaks.
    """
    if not check:
        raise UsageError(f"{path} shows how a law breaks; add --check")
    script = read(path)
    ticks: list[Ticks] = []

    def watch(stage: Stage) -> None:
        ticks.append(Ticks(stage.core))

    try:
        with bounded_memory(MOST_BYTES):
            play(script, watch=watch)
    finally:
        if ticks:
            _print_ticks(Console(highlight=False), ticks[0])
    print("every law holds: the policy is mended, or no longer the one that was checked")


def _need_place(path: Path) -> None:
    """Where a failure can be saved, known before hours of search."""
    if path.is_dir() or not path.parent.is_dir():
        problem = "a folder" if path.is_dir() else "its folder does not exist"
        raise UsageError(f"--out {path}: {problem}; name a file that can be written")


def _print_certificate(console: Console, name: str, report: Report) -> None:
    from schedlab.testing.check import versions

    tally, laws = report.tally, judged(report.tally.coverage)
    never = [one for one in laws if not one.times]
    seldom = [one for one in laws if 0 < one.times < SELDOM]
    moves = sum(tally.coverage.moves[move] > 0 for move in MOVES)
    decisions = sum(tally.coverage.decisions[decision] > 0 for decision in DECISIONS)
    rows = {
        "policy": name,
        "laws held": str(len(laws) - len(never)),
        f"judged < {SELDOM} times": ", ".join(f"{one.law.name} {one.times}" for one in seldom) or "none",
        "never judged": "; ".join(f"{one.law.name} (needs {one.lacks})" for one in never) or "none",
        "examples": f"{tally.num_examples:,}",
        "actions": f"{tally.num_rules:,}",
        "ticks": f"{tally.num_ticks:,}",
        "states reached": f"{tally.coverage.num_states} of 7",
        "life-cycle moves": f"{moves} of {len(MOVES)}",
        "scheduler decisions": f"{decisions} of {len(DECISIONS)}",
        "not reached": ", ".join(tally.coverage.missing) or "nothing",
        "seed": str(report.seed),
        "versions": ", ".join(f"{package} {number}" for package, number in versions().items()),
    }
    table = Table("no law broke", "", show_header=True, box=None)
    for title, value in rows.items():
        table.add_row(title, value)
    console.print(table)


def _print_failure(console: Console, name: str, report: Report, path: Path) -> None:
    error, script = report.error, report.script
    assert error is not None and script is not None
    law = error.law.name if error.law is not None else ""
    text = dumps(script, name, law)
    # Before anything is printed, which may fail too.
    unsaved = _save(text, path)
    console.print(f"a law broke: {error}", markup=False)
    for note in getattr(error, "__notes__", ()):
        console.print(note, markup=False)
    tally = report.tally
    console.print(
        f"found and made smaller in {tally.num_examples:,} examples; seed {report.seed}; {_what_is_left(script)}",
        markup=False,
    )
    if unsaved:
        console.print(f"not saved: {unsaved}. What belongs there is in the test below\n", markup=False)
    else:
        console.print(f"saved as {path}; see it tick by tick: schedlab replay {path} --check\n", markup=False)
    file = f"test_{_plain(find_policy(name).name)}.py"
    console.print(
        f"a regression test: save it as {file} in this folder, and run here (pytest comes with make .venv/dev): "
        f".venv/bin/python -m pytest {file}\n",
        markup=False,
    )
    console.print(_test_of(name, law, text), markup=False)


def _save(text: str, path: Path) -> str:
    """Why it could not be saved; empty if it was."""
    try:
        replace_file(path, text.encode())
    except UsageError as error:
        return str(error)
    return ""


def _what_is_left(script: Script) -> str:
    """Of an example that was made smaller."""
    num_sessions = len(script.world.sessions)
    return f"{num_sessions} sessions are left" if num_sessions else f"{len(script.actions)} actions are left"


def _test_of(name: str, law: str, text: str) -> str:
    return (
        "from schedlab.policies.registry import find_policy\n"
        "from schedlab.testing import loads, play\n\n\n"
        f"def test_{_plain(find_policy(name).name)}_keeps_{law or 'every_law'}():\n"
        f"    play(loads(SCRIPT, find_policy({name!r})))\n\n\n"
        f'SCRIPT = r"""\n{text}"""'
    )


def _print_ticks(console: Console, ticks: Ticks) -> None:
    table = Table("tick", "ns", "what happened", "who holds what: computed/known [blocks]", "free")
    for row in ticks.finish():
        # As text: what stands in brackets is no markup.
        cells = str(row.number), f"{row.now_ns:,}", row.happened, row.holders, str(row.free_blocks)
        table.add_row(*map(Text, cells))
    console.print(table)


def _plain(name: str) -> str:
    return re.sub(r"\W+", "_", name).strip("_") or "policy"


@contextmanager
def _progress(total: int | None, time_s: float | None) -> Iterator[Shower]:
    """A bar on a terminal, a line every few seconds elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines()
        return
    columns = (TextColumn("check"), BarColumn(), TextColumn("{task.fields[figures]}"))
    with RichProgress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("check", total=total or time_s, figures="")

        def show(now: Show) -> None:
            done = now.num_examples if total is not None else now.wall_s
            bar.update(task, completed=done, figures=_figures(now))

        yield show


def _figures(now: Show) -> str:
    of = f" of {now.total:,}" if now.total else ""
    return f"{now.num_examples:,}{of} examples, {now.num_rules:,} actions, {now.wall_s:.0f} s"


class _Lines:
    def __init__(self) -> None:
        self._next_s = 2.0

    def __call__(self, now: Show) -> None:
        if now.wall_s >= self._next_s:
            self._next_s = now.wall_s + SECONDS_BETWEEN_LINES
            print(f"check: {_figures(now)}", file=sys.stderr)
