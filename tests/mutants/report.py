"""`python -m tests.mutants.report` attacks every mutant and writes what killed it: the page, and the suite's hints."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from time import process_time
from typing import NamedTuple

import pytest

from tests.mutants.apart import APART
from tests.mutants.attack import Kill, first_kill
from tests.mutants.mutant import Mutant
from tests.mutants.registry import KILLERS, MUTANTS, attacks, attacks_on

PLACE = Path(__file__).parents[2] / "reports" / "gallery" / "mutants.md"


class Tried(NamedTuple):
    """A mutant and what killed it, if anything did, in how much processor time."""

    mutant: Mutant
    kill: Kill | None
    seconds: float


def tried(mutant: Mutant) -> Tried:
    """Make the program wrong, attack it, make it right again."""
    everything, begin = attacks_on(mutant), process_time()
    with pytest.MonkeyPatch.context() as patch:
        mutant.apply(patch)
        kill = first_kill(everything)
    return Tried(mutant, kill, process_time() - begin)


def main() -> int:
    """Print each result as it comes and write the page. Exit code 1 when a mutant of the suite lives."""
    groups: dict[str, list[Tried]] = {}
    total = sum(map(len, MUTANTS.values())) + len(APART)
    tried_groups = {**MUTANTS, "kept apart": APART} if APART else MUTANTS
    for group, mutants in tried_groups.items():
        groups[group] = []
        for mutant in mutants:
            groups[group].append(one := tried(mutant))
            number = sum(map(len, groups.values()))
            law = f"{one.kill.law} ({one.kill.attack})" if one.kill else "LIVES"
            print(f"{number:4}/{total} {one.seconds:5.1f} s  {mutant.name}: {law}", flush=True)
    killed = (f"{one.mutant.name}\t{one.kill.attack}\n" for group in groups.values() for one in group if one.kill)
    KILLERS.write_text("".join(killed), encoding="utf-8")
    PLACE.write_text("\n".join(page(groups)) + "\n", encoding="utf-8")
    print(f"wrote {PLACE}")
    return int(any(one.kill is None for group in MUTANTS for one in groups[group]))


def page(groups: dict[str, list[Tried]]) -> Iterator[str]:
    """The page, line by line."""
    everybody = [one for group in groups.values() for one in group]
    yield "# Mutants: which law notices which mistake\n"
    yield (
        f"`python -m tests.mutants.report`, {processor()}, Python {platform.python_version()}, {date.today()}; "
        f"{sum(one.seconds for one in everybody):.0f} s of processor time for {len(everybody)} mutants and "
        f"{len(attacks())} attacks.\n"
    )
    yield (
        "Each mutant is the program with one small mistake. The attacks are tried on it until a law, a comparison of "
        "two runs or an expected result breaks: first the one that killed it in the run before, then the others in a "
        "fixed order. A number in brackets is that of the defect in scheduler.md 17 that the mutant brings back. No "
        "attack was made for the mutants kept apart: they tell how many mistakes that nobody thought of are found.\n"
    )
    yield "| group | mutants | killed |\n| --- | ---: | ---: |"
    for name, group in groups.items():
        killed = sum(one.kill is not None for one in group)
        yield f"| {name} | {len(group)} | {killed} ({100 * killed / len(group):.0f} %) |"
    yield "\n## Which law\n\n| law | mutants |\n| --- | ---: |"
    laws = Counter(one.kill.law for one in everybody if one.kill)
    for law, count in sorted(laws.items(), key=lambda item: (-item[1], item[0])):
        yield f"| {law} | {count} |"
    for name, group in groups.items():
        yield f"\n## {name.capitalize()}\n\n| mutant | law | attack |\n| --- | --- | --- |"
        for mutant, kill, _ in group:
            defect = f" [{mutant.defect}]" if mutant.defect else ""
            how = f"{kill.law} | {kill.attack}" if kill else "**lives** | "
            yield f"| **{mutant.name}**{defect}: {mutant.wrong} | {how} |"


def processor() -> str:
    """Its name, as far as the system tells."""
    found = subprocess.run(["lscpu"], capture_output=True, text=True, check=False).stdout
    names = [line.partition(":")[2].strip() for line in found.splitlines() if line.startswith("Model name")]
    return names[0] if names else platform.machine()


if __name__ == "__main__":
    sys.exit(main())
