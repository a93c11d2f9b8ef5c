"""Pressed from all sides, every request that gets its answer gets the one that it would get alone.

Preemption, swap to host and disk, cache, snapshots, windows, chunks, cancels, deadlines and faults, all at once and in
a pool that is too small; the shadow device compares every output, and the checker every law after every tick.
"""

from __future__ import annotations

from hypothesis import given

from backends.sim.shadow_kv import ShadowDevice
from schedlab.core.scheduler import Scheduler
from schedlab.request import FinishReason
from schedlab.testing import Node, Outcome, World, alone, run
from schedlab.testing.hostile import Moody
from schedlab.testing.strategies import pressed_worlds
from tests.property.effort import examples
from tests.property.world import assert_leap_equals_step

ANSWERED = (FinishReason.STOP, FinishReason.LENGTH)


def assert_answers_are_those_of_solo_runs(world: World, outcome: Outcome) -> None:
    for request_id, ending in outcome.endings.items():
        if ending.reason in ANSWERED:
            assert ending == alone(world, request_id), f"request {request_id}"


def assert_nothing_is_left(core: Scheduler) -> None:
    assert core.pool.used_blocks == 0 and core.reserved_blocks == 0
    assert not any(core.swap.used_bytes.values()), core.swap.used_bytes
    assert not core.sequences and not core.parked and not core.restoring and not core.batch.rows


@given(pressed_worlds())
@examples(250)
def test_whoever_gets_an_answer_gets_that_of_its_solo_run(world: World) -> None:
    nodes: list[Node] = []
    outcome = run(world, watch=nodes.append)
    assert_answers_are_those_of_solo_runs(world, outcome)
    if isinstance(world.policy(world.config), Moody) and outcome.end != "done":
        return  # it may starve someone for ever, and then says so
    assert (outcome.end, outcome.num_finished) == ("done", outcome.num_accepted)
    assert len(outcome.endings) == sum(len(session.turns) for session in world.sessions)
    assert_nothing_is_left(nodes[0].core)


@given(pressed_worlds())
@examples(100)
def test_pressed_worlds_look_the_same_with_and_without_leaps(world: World) -> None:
    assert_leap_equals_step(world, ShadowDevice)
