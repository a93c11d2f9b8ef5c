"""A run of decode steps in closed form is the same as the steps one by one, in everything that anyone can see."""

from __future__ import annotations

from hypothesis import given, note

from tests.property.effort import examples
from tests.property.policies import Moody
from tests.property.strategies import worlds
from tests.property.world import World, assert_leap_equals_step


@given(worlds())
@examples(300)
def test_any_world_looks_the_same_with_and_without_leaps_and_every_request_ends(world: World) -> None:
    note(str(world.cost.describe()))
    outcome = assert_leap_equals_step(world)
    if isinstance(world.policy(world.config), Moody):
        return  # it may starve someone for ever; then both runs say so
    accepted, ended, *_ = outcome.counts
    assert (outcome.end, ended) == ("done", accepted)
