"""Random small worlds: the simulated device with the real one's times makes the same decisions, to the byte."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.models.twins import on_real, on_simulated  # isort: skip

from schedlab.memory.swap import GIB
from schedlab.testing import World, constant
from schedlab.testing.strategies import chats, configs, crowds, policies, resets, trace_blocks
from tests.property.effort import FACTOR

# About as long as a step of the tiny model takes.
UNIT_NS = 1_000_000


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Any configuration that the real device serves, and more requests than its pool can hold at a time."""
    config = draw(configs().filter(lambda config: not config.window_blocks))
    size = draw(trace_blocks(config.block_size))
    arrivals = draw(crowds(UNIT_NS, size)) + draw(st.lists(chats(UNIT_NS, size), max_size=2).map(tuple))
    return World(
        config,
        draw(policies(config, UNIT_NS)),
        constant(UNIT_NS),
        max(1, draw(st.integers(24, 90)) // config.block_size),
        arrivals,
        GIB // draw(st.integers(1, 30)),
        wants_dense_slots=draw(st.booleans()),
        resets=draw(resets(UNIT_NS)),
    )


@settings(
    max_examples=25 * FACTOR,
    deadline=None,
    database=None,
    derandomize=FACTOR == 1,
    suppress_health_check=list(HealthCheck),
)
@given(worlds())
def test_both_devices_make_the_same_decisions(world: World) -> None:
    log, end, recording = on_real(world)
    for leap in (False, True):
        again, its_end = on_simulated(world, recording, leap=leap)
        assert again.decode().splitlines() == log.decode().splitlines()
        assert (again, its_end) == (log, end)
