"""All mutants by what they break, and all attacks in the order in which they are tried."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tests.mutants import (
    of_cache,
    of_eighth_sight,
    of_fifth_sight,
    of_first_sight,
    of_fourth_sight,
    of_ninth_sight,
    of_policies,
    of_pool,
    of_second_sight,
    of_seventh_sight,
    of_sixth_sight,
    of_snapshots,
    of_spill,
    of_steps,
    of_sums,
    of_swaps,
    of_third_sight,
    of_ticks,
)
from tests.mutants.attack import Attack
from tests.mutants.bent import bent_attacks
from tests.mutants.failing import failing_attacks
from tests.mutants.judgements import judgement_attacks
from tests.mutants.made import made_attacks
from tests.mutants.moments import moment_attacks
from tests.mutants.mutant import Mutant
from tests.mutants.named import named_attacks
from tests.mutants.parts import part_attacks
from tests.mutants.plans import plan_attacks
from tests.mutants.pools import pool_attacks
from tests.mutants.saved import saved_attacks
from tests.mutants.scenarios import scenario_attacks
from tests.mutants.sliding import sliding_attacks
from tests.mutants.spills import spill_attacks
from tests.mutants.turning import turning_attacks
from tests.mutants.unit_tests import unit_attacks
from tests.mutants.worlds import hybrid_attacks, pressed_attacks, world_attacks

MUTANTS: dict[str, tuple[Mutant, ...]] = {
    "pool": of_pool.MUTANTS,
    "prefix cache": of_cache.MUTANTS,
    "sums": of_sums.MUTANTS,
    "ticks": of_ticks.MUTANTS,
    "steps": of_steps.MUTANTS,
    "swaps and windows": of_swaps.MUTANTS,
    "snapshots": of_snapshots.MUTANTS,
    "policies": of_policies.MUTANTS,
    "spill store": of_spill.MUTANTS,
    "once kept apart": (
        *of_first_sight.MUTANTS,
        *of_second_sight.MUTANTS,
        *of_third_sight.MUTANTS,
        *of_fourth_sight.MUTANTS,
        *of_fifth_sight.MUTANTS,
        *of_sixth_sight.MUTANTS,
        *of_seventh_sight.MUTANTS,
        *of_eighth_sight.MUTANTS,
        *of_ninth_sight.MUTANTS,
    ),
}
SEED = 0
# What killed each mutant when `python -m tests.mutants.report` was run last.
KILLERS = Path(__file__).with_name("killers.tsv")


@cache
def attacks() -> tuple[Attack, ...]:
    """The quick ones first; the same for every mutant. Made before anything is wrong."""
    worlds, hybrids, pressed = world_attacks(100, SEED), hybrid_attacks(60, SEED), pressed_attacks(150, SEED)
    return (
        *part_attacks(),
        *judgement_attacks(),
        *pool_attacks(),
        *plan_attacks(),
        *named_attacks(),
        *spill_attacks(),
        *unit_attacks(),
        *worlds[:20],
        *moment_attacks(),
        *worlds[20:40],
        *made_attacks(),
        *saved_attacks(),
        *sliding_attacks(),
        *failing_attacks(),
        *turning_attacks(),
        *pressed[:60],
        *bent_attacks(25, SEED + 1),
        *hybrids[:15],
        *scenario_attacks(),
        *pressed[60:],
        *worlds[40:],
        *hybrids[15:],
    )


def attacks_on(mutant: Mutant) -> list[Attack]:
    """All attacks, the likely killer first: a run is quick, and a killer that has grown blunt is still replaced."""
    likely = likely_killers().get(mutant.name)
    return sorted(attacks(), key=lambda attack: attack.name != likely)


@cache
def likely_killers() -> dict[str, str]:
    """The name of an attack by that of the mutant."""
    return dict(line.split("\t") for line in KILLERS.read_text(encoding="utf-8").splitlines())
