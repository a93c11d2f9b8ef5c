"""What a certificate says of each law: how often it was judged, and what never came about."""

from __future__ import annotations

from schedlab.config import SchedulerConfig
from schedlab.invariants import laws
from schedlab.policies.fifo import Fifo
from schedlab.testing import Session, Turn, World, constant
from schedlab.testing.actions import Stage
from schedlab.testing.coverage import DEADLINE, DECISIONS, PLAYED_TWICE, STEP, Coverage
from schedlab.testing.features import Feature
from schedlab.testing.judged import CONDITIONS, Judged, judged
from schedlab.testing.laws import TESTING_LAWS


def _judged(config: SchedulerConfig, *turns: Turn, num_blocks: int = 20) -> dict[str, Judged]:
    coverage = Coverage()
    world = World(config, Fifo, constant(1000), num_blocks, (Session(0, turns),))
    Stage(world, coverage=coverage).finish()
    return {one.law.name: one for one in judged(coverage)}


def test_conditions_are_of_laws_and_made_of_what_is_counted() -> None:
    known = {*DECISIONS, *Feature, STEP, DEADLINE, PLAYED_TWICE}
    assert set(CONDITIONS) <= {law.name for law in (*laws(), *TESTING_LAWS)}
    assert {name for conditions in CONDITIONS.values() for names in conditions for name in names} <= known


def test_what_nothing_came_of_is_never_judged_and_says_why() -> None:
    of = _judged(SchedulerConfig(prefix_cache=False), Turn(4, 3))
    assert of["seats_within_limit"].times > 0
    for law, lacks in {
        "images_fill_their_tiers": "swapping",
        "snapshots_have_a_slot_each": "a cache of states, for hybrid models",
        "keys_and_blocks_agree": "a prefix cache",
        "deadlines_are_watched": "a request with a deadline",
        "refused_never_waits": "refuse",
        "same_input_same_decisions": "a run that was played twice",
    }.items():
        assert (of[law].times, of[law].lacks) == (0, lacks)


def test_what_came_about_is_judged_as_often() -> None:
    deadline = Turn(4, 3, timeout_ns=10**9)
    of = _judged(SchedulerConfig(prefix_cache=True), deadline, deadline, Turn(10**6, 1))
    assert (of["deadlines_are_watched"].times, of["refused_never_waits"].times) == (2, 1)
    assert of["keys_and_blocks_agree"].times > 0


def test_all_parts_of_a_condition_must_come_about() -> None:
    class Composes(Fifo):
        def compose(self, view: object) -> int:
            return 3

    coverage = Coverage()
    world = World(SchedulerConfig(prefix_cache=False), Composes, constant(1000), 20, (Session(0, (Turn(9, 2),)),))
    Stage(world, coverage=coverage).finish()
    (piece,) = [one for one in judged(coverage) if one.law.name == "a_piece_ends_for_a_reason"]
    assert coverage.decisions["chunk: a piece"] > 0
    assert (piece.times, piece.lacks) == (0, "a policy that leaves `compose` to the configured rule")
