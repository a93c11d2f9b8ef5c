"""Every mutant is killed, by a law or an expectation and not by a clock; without a mutant nothing is found."""

from __future__ import annotations

import pytest

from tests.mutants.apart import APART
from tests.mutants.attack import Attack, Hangs, Kill, first_kill
from tests.mutants.mutant import Mutant, StaleMutant, edit, mutant
from tests.mutants.registry import MUTANTS, attacks, attacks_on, likely_killers

EVERYBODY = [mutant for group in MUTANTS.values() for mutant in group]
LEAST_MUTANTS = 60
# All attacks together take as long as some thirty tests.
PARTS = 8
# Defects of the original (scheduler.md 17) that this scheduler could have and has not. The others are of features that
# it has not (adapters' cohorts, speculation, tool calls, delivery) or choices of the configuration.
MENDED = {1, 2, 3, 4, 5, 6, 8, 10, 15, 17, 18, 19, 25}


@pytest.mark.parametrize("part", range(PARTS))
def test_without_a_mutant_no_attack_finds_anything(part: int) -> None:
    assert first_kill(attacks()[part::PARTS]) is None


@pytest.mark.parametrize("one", EVERYBODY, ids=[one.name for one in EVERYBODY])
def test_this_mutant_is_killed(one: Mutant) -> None:
    kill = killer(one)
    assert kill is not None, f"{one.name} lives: {one.wrong}"
    assert Hangs.__name__ not in kill.law, f"only the clock noticed that {one.wrong}"


def test_of_those_kept_apart_more_than_nine_in_ten_are_killed() -> None:
    """Only those of which a killer is known are tried: one that lives withstands all attacks, for most of a minute."""
    killed = sum(killer(one) is not None for one in APART if one.name in likely_killers())
    assert 10 * killed > 9 * len(APART)


def test_a_mutant_of_a_text_that_is_gone_is_no_mutant() -> None:
    gone = mutant("old", "changes what is not there", edit(killer, "attacks_off(one)", "()"))
    with pytest.raises(StaleMutant, match=r"old: killer has 'attacks_off\(one\)' 0 times, it should have it once"):
        killer(gone)


def test_a_mutant_that_names_what_is_gone_is_no_mutant() -> None:
    def renamed() -> None:
        gone.call()  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(StaleMutant, match="'gone' is not defined"):
        first_kill([Attack("one", renamed)])


def killer(one: Mutant) -> Kill | None:
    """What kills it. Afterwards all is right again."""
    everything = attacks_on(one)
    with pytest.MonkeyPatch.context() as patch:
        one.apply(patch)
        return first_kill(everything)


def test_there_are_enough_mutants_each_under_its_own_name_and_every_mended_defect_is_among_them() -> None:
    assert len(EVERYBODY) >= LEAST_MUTANTS
    assert len({mutant.name for mutant in [*EVERYBODY, *APART]}) == len(EVERYBODY) + len(APART)
    assert {mutant.defect for mutant in EVERYBODY} - {None} == MENDED
