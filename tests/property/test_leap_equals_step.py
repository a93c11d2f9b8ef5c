"""A run of decode steps in closed form is the same as the steps one by one, in everything that anyone can see."""

from __future__ import annotations

from hypothesis import given

from schedlab.testing import World
from schedlab.testing.hostile import Moody
from schedlab.testing.strategies import worlds
from tests.property.effort import examples
from tests.property.world import assert_leap_equals_step


@given(worlds())
@examples(300)
def test_any_world_looks_the_same_with_and_without_leaps_and_every_request_ends(world: World) -> None:
    outcome = assert_leap_equals_step(world)
    if isinstance(world.policy(world.config), Moody):
        return  # it may starve someone for ever; then both runs say so
    accepted, ended, *_ = outcome.counts
    assert (outcome.end, ended) == ("done", accepted)
