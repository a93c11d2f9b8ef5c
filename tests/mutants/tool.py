"""`python -m tests.mutants.tool` changes every function by rule, and tells which changes no attack finds.

Each variant runs in a process of its own, under bounds of time and memory, against the attacks that reach its lines.
Those that live are written to a file, one a line; what `equivalent.tsv` explains is not tried and is counted apart.
"""

from __future__ import annotations

import inspect
import os
import resource
import select
import signal
import sys
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from random import Random
from textwrap import dedent
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import pytest
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

import schedlab
from tests.mutants import attack
from tests.mutants.attack import Attack, Hangs, first_kill
from tests.mutants.mutant import StaleMutant, compiled, plain_function
from tests.mutants.operators import Variant, variants
from tests.mutants.reach import Line, reached
from tests.mutants.registry import attacks

ROOT = Path(schedlab.__file__).parent
PACKAGES = ("core", "memory", "policies")
EQUIVALENT = Path(__file__).with_name("equivalent.tsv")
SURVIVORS = Path("out/survivors.tsv")
MOST_WALL_S = 300.0
MOST_SECONDS = 1000.0
MOST_BYTES = 6 << 30
MOST_SECONDS_OF_AN_ATTACK = 2.0
SECONDS_BETWEEN_LINES = 15.0
LIVES, HANGS, INVALID, EQUAL = "LIVES", "HANGS", "INVALID", "EQUIVALENT"


class Target(NamedTuple):
    """A variant of a function; `module` is its file below `schedlab`."""

    module: str
    function: FunctionType
    variant: Variant

    @property
    def place(self) -> tuple[str, str, str, str]:
        """What names it as long as the text around it stays."""
        return self.module, self.function.__qualname__, self.variant.before, self.variant.after


class Result(NamedTuple):
    """What became of a variant: who found it, or one of the words above."""

    target: Target
    law: str
    attack: str


def modules(only: str | None = None) -> Iterator[tuple[str, ModuleType]]:
    """The modules that are changed, each with its file."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            file = path.relative_to(ROOT).as_posix()
            if only is None or file.startswith(only):
                dotted = path.relative_to(ROOT.parent).with_suffix("").as_posix().replace("/", ".")
                yield file, import_module(dotted.removesuffix(".__init__"))


def functions(module: ModuleType) -> Iterator[FunctionType]:
    """All that the module's own text defines, in its order."""
    found = {function.__qualname__: function for function in _functions(module, module.__name__)}
    yield from sorted(found.values(), key=lambda function: function.__code__.co_firstlineno)


def _functions(owner: Any, module: str) -> Iterator[FunctionType]:
    for value in list(vars(owner).values()):
        inner = value.__func__ if isinstance(value, staticmethod | classmethod) else value
        if isinstance(value, type) and value.__module__ == module and value is not owner:
            yield from _functions(value, module)
        elif isinstance(inner, property) or (callable(inner) and not isinstance(inner, type)):
            try:
                function = plain_function(inner)
            except (AssertionError, ValueError):
                continue
            if function.__module__ == module and function.__code__.co_filename == sys.modules[module].__file__:
                yield function


def targets(only: str | None = None) -> list[Target]:
    """Every variant of every function."""
    return [
        Target(file, function, variant)
        for file, module in modules(only)
        for function in functions(module)
        for variant in variants(dedent(inspect.getsource(function)), function.__code__.co_firstlineno)
    ]


def try_one(target: Target, chosen: Sequence[Attack], most_s: float) -> Result:
    """Fork, change, attack for so much processor time.

    Without that bound the result is the same whatever the order of the attacks, but for who is named.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        try:
            told = _attacked(target, _bounded(chosen, most_s))
        except BaseException as error:
            told = f"no_error ({type(error).__name__})\t"
        os.write(writer, told.encode())
        os._exit(0)
    os.close(writer)
    ready, _, _ = select.select([reader], [], [], MOST_WALL_S)
    if not ready:
        os.kill(child, signal.SIGKILL)
    told = os.read(reader, 65536).decode()
    os.close(reader)
    os.waitpid(child, 0)
    law, _, name = (told or f"{HANGS}\t").partition("\t")
    return Result(target, law, name)


def _attacked(target: Target, chosen: Iterable[Attack]) -> str:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 2)
    attack.MOST_SECONDS = MOST_SECONDS_OF_AN_ATTACK
    with pytest.MonkeyPatch.context() as patch:
        try:
            patch.setattr(target.function, "__code__", compiled(target.function, target.variant.tree))
            kill = first_kill(chosen)
        except (StaleMutant, SyntaxError, ValueError):
            return f"{INVALID}\t"
    if kill is None:
        return f"{LIVES}\t"
    return f"{HANGS if Hangs.__name__ in kill.law else kill.law}\t{kill.attack}"


def _bounded(chosen: Iterable[Attack], most_s: float) -> Iterator[Attack]:
    begin = time.process_time()
    for one in chosen:
        if time.process_time() - begin > most_s:
            return
        yield one


class Runner:
    """Tries variants, first with the attacks that have killed others of the same function.

    Args:
        reach: numbers of the attacks that run each line; without them all attacks are tried.
    """

    def __init__(self, most_s: float, reach: dict[Line, list[int]] | None) -> None:
        self._attacks = attacks()
        self._most_s = most_s
        self._reached = reach
        self._all_kills: Counter[int] = Counter()
        self._kills: dict[str, Counter[int]] = {}
        self._number = {one.name: number for number, one in enumerate(self._attacks)}

    def run(self, target: Target) -> Result:
        """The result of one variant."""
        kills = self._kills.setdefault(f"{target.module} {target.function.__qualname__}", Counter())
        numbers = self._that_reach(target)
        order = sorted(numbers, key=lambda number: (-kills[number], -self._all_kills[number], number))
        result = try_one(target, [self._attacks[number] for number in order], self._most_s)
        if result.attack:
            kills[self._number[result.attack]] += 1
            self._all_kills[self._number[result.attack]] += 1
        return result if order or result.law != LIVES else result._replace(attack="no attack reaches it")

    def _that_reach(self, target: Target) -> Iterable[int]:
        if self._reached is None:
            return range(len(self._attacks))
        first, last = target.variant.lines
        file = target.function.__code__.co_filename
        return {number for line in range(first, last + 1) for number in self._reached.get((file, line), ())}


def judged() -> dict[tuple[str, str, str, str], str]:
    """Why a variant is no mistake, by its place."""
    if not EQUIVALENT.exists():
        return {}
    lines = (line.split("\t") for line in EQUIVALENT.read_text(encoding="utf-8").splitlines() if line)
    return {(module, function, before, after): why for module, function, before, after, why in lines}


def report(results: Iterable[Result]) -> Iterator[str]:
    """A table by module."""
    counts: dict[str, Counter[str]] = {}
    for result in results:
        kind = result.law if result.law in (LIVES, HANGS, INVALID, EQUAL) else "killed"
        counts.setdefault(result.target.module, Counter())[kind] += 1
    total: Counter[str] = sum(counts.values(), Counter())
    yield "| module | variants | killed | by the clock | live | judged equivalent | share killed |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for module, found in [*counts.items(), ("all", total)]:
        tried = found.total() - found[INVALID]
        meant = tried - found[EQUAL]
        killed = found["killed"] + found[HANGS]
        share = f"{100 * killed / meant:.1f} %" if meant else ""
        row = (module, tried, found["killed"], found[HANGS], found[LIVES], found[EQUAL], share)
        yield "| " + " | ".join(map(str, row)) + " |"
    yield f"\n{total[INVALID]} variants name what is not there and are not counted."


@contextmanager
def progress(name: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, else a line now and then."""
    console, begin = Console(stderr=True), time.monotonic()
    if console.is_terminal:
        columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), TextColumn("ETA"), TimeRemainingColumn())
        with RichProgress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(name, total=total)
            yield lambda done: bar.update(task, completed=done)
        return
    next_s = SECONDS_BETWEEN_LINES

    def tell(done: int) -> None:
        nonlocal next_s
        passed_s = time.monotonic() - begin
        if passed_s >= next_s:
            next_s = passed_s + SECONDS_BETWEEN_LINES
            left_s = passed_s / done * (total - done)
            print(f"{name}: {done:,} of {total:,} in {passed_s:.0f} s, about {left_s:.0f} s left", file=sys.stderr)

    yield tell


def _reach(chosen: Iterable[Target]) -> dict[Line, list[int]]:
    with progress("what attacks reach", len(attacks())) as tell:
        return reached(attacks(), {target.function.__code__.co_filename for target in chosen}, tell)


def main() -> int:
    """Exit code 1 when a variant lives that nobody has judged to be equivalent."""
    parser = ArgumentParser(prog="python -m tests.mutants.tool", description=__doc__)
    parser.add_argument("--module", help="only files that begin so, as core/plan.py; all of core, memory and policies")
    parser.add_argument("--sample", type=int, help="so many variants, drawn by the seed; all of them")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--blind", action="store_true", help="all attacks, whatever they reach: quicker for few")
    parser.add_argument("--again", type=Path, help="only those that such a file of survivors names")
    parser.add_argument(
        "--seconds", type=float, default=MOST_SECONDS, help="processor time for one variant; all it takes"
    )
    parser.add_argument("--survivors", type=Path, default=SURVIVORS, help="file for those that live")
    options = parser.parse_args()
    chosen = targets(options.module)
    if not chosen:
        parser.error(f"--module {options.module}: no such file in {', '.join(PACKAGES)} has a function to change")
    if options.again is not None:
        named = {tuple(line.split("\t")) for line in options.again.read_text(encoding="utf-8").splitlines()}
        places = {(module, function, before, after) for module, function, _, before, after, _ in named}
        chosen = [target for target in chosen if target.place in places]
    if options.sample is not None and options.sample < len(chosen):
        kept = sorted(Random(options.seed).sample(range(len(chosen)), options.sample))
        chosen = [chosen[index] for index in kept]
    runner = Runner(options.seconds, None if options.blind else _reach(chosen))
    results, why = [], judged()
    options.survivors.parent.mkdir(parents=True, exist_ok=True)
    with progress("variants", len(chosen)) as tell, options.survivors.open("w", encoding="utf-8") as out:
        for number, target in enumerate(chosen):
            result = Result(target, EQUAL, "") if target.place in why else runner.run(target)
            results.append(result)
            if result.law == LIVES:
                module, function, before, after = target.place
                line = target.variant.lines[0]
                print(module, function, line, before, after, result.attack, sep="\t", file=out, flush=True)
            tell(number + 1)
    print("\n".join(report(results)))
    for place in sorted(set(why) - {target.place for target in targets()}):
        print(f"{EQUIVALENT.name} explains what is no variant any more: {place}")
    lives = sum(result.law == LIVES for result in results)
    print(f"{lives} live and are in {options.survivors}")
    return int(lives > 0)


if __name__ == "__main__":
    sys.exit(main())
