"""A run of decode steps in closed form is the same as the steps one by one, in everything that anyone can see."""

from __future__ import annotations

from hypothesis import given, note

from tests.property.effort import examples
from tests.property.strategies import worlds
from tests.property.world import World, assert_leap_equals_step


@given(worlds())
@examples(300)
def test_any_world_looks_the_same_with_and_without_leaps(world: World) -> None:
    note(str(world.cost.describe()))
    assert_leap_equals_step(world)
