"""Steps that fail at any point of any run: the laws hold, and everybody still ends once."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from schedlab.fault_plan import FaultPlan, StepFailure, Which
from schedlab.testing import World, run
from schedlab.testing.hostile import Moody
from schedlab.testing.strategies import worlds
from tests.property.effort import examples


@given(worlds(), st.sets(st.integers(1, 60), min_size=1, max_size=6))
@examples(120)
def test_a_failed_step_costs_its_own_sequences_only(world: World, failing: set[int]) -> None:
    faults = FaultPlan(step_failures=(StepFailure(Which(tuple(sorted(failing)))),))
    outcome = run(replace(world, faults=faults), leap=False)
    if not isinstance(world.policy(world.config), Moody):
        assert (outcome.end, outcome.num_finished) == ("done", outcome.num_accepted)
