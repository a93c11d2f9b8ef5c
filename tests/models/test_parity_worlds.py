"""The simulated device with the real one's times decides as it did, to the byte; no output depends on decisions."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.models.twins import OnReal, on_real, on_simulated  # isort: skip

from schedlab.config import AdmissionRule, Fusion, PreemptionMode, ResumeRule, SchedulerConfig, VictimRule
from schedlab.memory.blocks import blocks_for
from schedlab.policies.fifo import Fifo
from schedlab.policies.priority import Priority
from schedlab.testing import Session, Text, Turn, World, constant
from schedlab.testing.strategies import chats, crowds, policies, resets, trace_blocks
from tests.property.effort import FACTOR

# About as long as a step of the tiny model takes.
UNIT_NS = 2_000_000
BLOCK_BYTES = 1 << 10
ROOM: dict[PreemptionMode, dict[str, int]] = {
    PreemptionMode.RECOMPUTE: {},
    PreemptionMode.HOST: {"swap_host_gib": 1},
    PreemptionMode.DISK: {"swap_disk_gib": 1},
    PreemptionMode.CHEAPEST: {"swap_host_gib": 1, "swap_disk_gib": 1},
}


@st.composite
def worlds(draw: st.DrawFn, mode: PreemptionMode) -> World:
    """A crowd that outgrows its pool, with cancels, deadlines, texts that begin alike and a cache that is reset."""
    block_size, seats = draw(st.sampled_from((2, 4, 7))), draw(st.integers(3, 7))
    config = SchedulerConfig(
        max_num_seqs=seats,
        max_num_batched_tokens=seats + draw(st.integers(1, 24)),
        max_prefill_tokens=draw(st.integers(0, 9)),
        align_chunks=draw(st.booleans()),
        fusion=draw(st.sampled_from(Fusion)),
        max_bypass=draw(st.integers(0, 2)),
        victim=draw(st.sampled_from(VictimRule)),
        resume=draw(st.sampled_from(ResumeRule)),
        block_size=block_size,
        max_model_len=200,
        preemption=mode,
        swap_at_admission=mode is not PreemptionMode.RECOMPUTE and draw(st.booleans()),
        prefix_cache=draw(st.booleans()),
        **ROOM[mode],
    )
    trace_block = draw(trace_blocks(block_size))
    crowd = draw(crowds(UNIT_NS, trace_block))
    longest = max(blocks_for(turn.prompt_tokens + turn.output_tokens, block_size) for (_, (turn,), _) in crowd)
    return World(
        config,
        draw(policies(config, UNIT_NS)),
        constant(UNIT_NS),
        longest + draw(st.integers(0, 4)),
        crowd + draw(st.lists(chats(UNIT_NS, trace_block), max_size=1).map(tuple)),
        BLOCK_BYTES,
        wants_dense_slots=draw(st.booleans()),
        resets=draw(resets(UNIT_NS)),
    )


def assert_parity(world: World) -> OnReal:
    """Stepped and in leaps, the simulated device repeats the real one."""
    real = on_real(world)
    assert_same(world, real)
    return real


def assert_same(world: World, real: OnReal) -> None:
    """The simulated device repeats that run."""
    for leap in (False, True):
        log, end = on_simulated(world, real.recording, leap=leap)
        assert log.decode().splitlines() == real.log.decode().splitlines()
        assert (log, end) == (real.log, real.end)


def assert_same_outputs(world: World, real: OnReal) -> None:
    """Every request gives the tokens that it gives in an empty room, as far as it came."""
    alone = on_real(alone_in(world))
    assert real.outputs == {one: alone.outputs[one][: len(tokens)] for one, tokens in real.outputs.items()}


def alone_in(world: World) -> World:
    """The same requests one after another, in memory without end; nobody leaves."""
    patient = tuple(
        session._replace(turns=tuple(turn._replace(timeout_ns=None, cancel_ns=None) for turn in session.turns))
        for session in world.sessions
    )
    size = world.config.block_size
    config = SchedulerConfig(max_num_seqs=1, max_num_batched_tokens=256, block_size=size, max_model_len=200)
    return World(config, Fifo, world.cost, 1000 // size, patient, BLOCK_BYTES)


@pytest.mark.parametrize("mode", PreemptionMode)
def test_in_random_worlds_both_devices_decide_alike_and_no_output_changes(mode: PreemptionMode) -> None:
    @settings(
        max_examples=6 * FACTOR,
        deadline=None,
        database=None,
        derandomize=FACTOR == 1,
        suppress_health_check=list(HealthCheck),
    )
    @given(worlds(mode))
    def hold(world: World) -> None:
        assert_same_outputs(world, assert_parity(world))

    hold()


CROWD = tuple(Session(0, (Turn(9, 24, 30, priority=number % 3),)) for number in range(6))
TEXT = Text(0, 16, 4)


def fixed(sessions: tuple[Session, ...], policy: Any = Fifo, **changes: Any) -> World:
    """A pool that holds two of the crowd at their longest."""
    settings_of = {"max_num_seqs": 6, "max_num_batched_tokens": 24, "block_size": 4, "max_model_len": 200}
    return World(SchedulerConfig(**{**settings_of, **changes}), policy, constant(UNIT_NS), 20, sessions, BLOCK_BYTES)


# What must be in the log of a world, whatever the times.
FEATURES: dict[str, tuple[World, tuple[bytes, ...]]] = {
    "recompute": (fixed(CROWD), (b'"ev":"preempted"', b'"ev":"resumed"')),
    "host": (
        fixed(CROWD, preemption=PreemptionMode.HOST, swap_host_gib=1),
        (b'"ev":"swapped_out"', b'"to":"host"', b'"ev":"restored"'),
    ),
    "disk": (
        fixed(CROWD, preemption=PreemptionMode.DISK, swap_disk_gib=1),
        (b'"ev":"swapped_out"', b'"to":"disk"', b'"ev":"restored"'),
    ),
    "cache": (
        fixed(tuple(Session(0, (Turn(18, 4), Turn(18, 4)), TEXT) for _ in range(2)), prefix_cache=True),
        (b'"cached":16',),
    ),
    "chunks beside rows": (
        fixed((Session(0, (Turn(2, 40),)), Session(0, (Turn(60, 2),)))),
        (b'"chunks":[[1000,22,23,false]],"decode":1', b'"chunks":[[1000,45,15,true]],"decode":1'),
    ),
    "cancel and deadline": (
        fixed((Session(0, (Turn(4, 60, cancel_ns=UNIT_NS),)), Session(0, (Turn(4, 60, timeout_ns=UNIT_NS),)))),
        (b'"why":"cancelled"', b'"why":"timeout"'),
    ),
    "priority": (
        fixed(
            (*(Session(0, (Turn(9, 24, priority=9),)) for _ in range(5)), Session(UNIT_NS, (Turn(70, 2, priority=0),))),
            partial(Priority, evict=True),
        ),
        (b'"why":"priority"',),
    ),
    "commit": (
        fixed(CROWD, admission=AdmissionRule.COMMIT, overcommit_percent=150),
        (b'"ev":"preempted"', b'"why":"stop"'),
    ),
}


@pytest.mark.parametrize("feature", FEATURES)
def test_whatever_a_scheduler_can_do_both_devices_do_it_alike_and_no_output_changes(feature: str) -> None:
    world, words = FEATURES[feature]
    real = assert_parity(world)
    assert [word for word in words if word not in real.log] == []
    assert_same_outputs(world, real)
