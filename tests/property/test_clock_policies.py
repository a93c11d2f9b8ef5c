"""Policies that read the clock: what they answered holds until they said, and no longer."""

from __future__ import annotations

from functools import partial

from schedlab.config import Fusion, SchedulerConfig
from schedlab.testing import Session, Turn, World, constant
from schedlab.testing.hostile import Shifts
from tests.property.world import assert_leap_equals_step


def test_a_refusal_of_the_plan_ends_when_the_plan_said_though_another_lane_took_longer() -> None:
    # At 23 us the gate is closed and refuses the third request; a long chunk then runs until it has opened.
    config = SchedulerConfig(
        max_num_seqs=4, max_num_batched_tokens=8, max_prefill_tokens=4, fusion=Fusion.NONE, block_size=4
    )
    arrivals = (
        Session(0, (Turn(1, 60),)),
        Session(2_000, (Turn(12, 60),)),
        Session(11_000, (Turn(1, 5),)),
    )
    cost = constant(step_ns=1000, per_prefill_token_ns=2000)
    world = World(config, partial(Shifts, period_ns=15_000, gate="admit"), cost, 100, arrivals)
    outcome = assert_leap_equals_step(world)
    assert outcome.end == "done"


def test_a_preempted_sequence_is_asked_about_again_when_the_policy_said_so() -> None:
    # Both outgrow the pool together; the first ends while the gate is closed.
    config = SchedulerConfig(max_num_seqs=2, max_num_batched_tokens=8, block_size=1)
    arrivals = (Session(0, (Turn(2, 5),)), Session(0, (Turn(2, 5),)))
    world = World(config, partial(Shifts, period_ns=4_000, gate="admit"), constant(step_ns=1000), 8, arrivals)
    assert assert_leap_equals_step(world).end == "done"
