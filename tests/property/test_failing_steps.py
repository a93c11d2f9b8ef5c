"""Steps that fail at any point of any run: the laws hold, and everybody still ends once."""

from __future__ import annotations

from hypothesis import given, note
from hypothesis import strategies as st

from backends.sim.device import SimDevice, StepTicket
from schedlab.device import StepResult
from schedlab.errors import DeviceFault
from tests.property.effort import examples
from tests.property.policies import Moody
from tests.property.strategies import worlds
from tests.property.world import World, run


@given(worlds(), st.sets(st.integers(1, 60), min_size=1, max_size=6))
@examples(120)
def test_a_failed_step_costs_its_own_sequences_only(world: World, failing: set[int]) -> None:
    class FaultyDevice(SimDevice):
        def _result(self, ticket: StepTicket) -> StepResult:
            if ticket.number not in failing:
                return super()._result(ticket)
            return StepResult(1, ticket.pace.truncated(1), [], fault=DeviceFault("it broke"))

    note(str(world.cost.describe()))
    outcome = run(world, leap=False, device_class=FaultyDevice)
    accepted, ended, *_ = outcome.counts
    if not isinstance(world.policy(world.config), Moody):
        assert (outcome.end, ended) == ("done", accepted)
