"""What must not depend on how a run is scheduled: how every request ends, and what it says.

Each law compares a world with another one that differs in one rule. Deadlines, cancels and faults depend on times, so
these worlds have none, and pools that hold the longest request. The shadow device compares every output with that of
the request alone; here the endings are compared too.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from backends.sim.device import SimDevice
from backends.sim.testbed import SimTestbed
from schedlab.config import Fusion, PreemptionMode, SchedulerConfig
from schedlab.errors import Stalled
from schedlab.events import Finished
from schedlab.fault_plan import FaultPlan
from schedlab.memory.blocks import blocks_for
from schedlab.policies.fifo import Fifo
from schedlab.policies.slai import Slai
from schedlab.request import FinishReason
from schedlab.testing import Ending, Node, Sessions, World, alone, run
from schedlab.testing.strategies import pressed_worlds
from tests.property.effort import examples
from tests.property.world import Recorder
from tests.property.world import run as run_recorded
from tests.unit.shadow_helpers import Unchecked

ANSWERED = (FinishReason.STOP, FinishReason.LENGTH)
NO_SWAP: dict[str, Any] = {
    "preemption": PreemptionMode.RECOMPUTE,
    "swap_host_gib": 0,
    "swap_disk_gib": 0,
    "window_blocks": 0,
    "swap_at_admission": False,
}
HOST: dict[str, Any] = {**NO_SWAP, "preemption": PreemptionMode.HOST, "swap_host_gib": 64}
DISK: dict[str, Any] = {**NO_SWAP, "preemption": PreemptionMode.DISK, "swap_disk_gib": 64}
CHEAPEST: dict[str, Any] = {**HOST, "preemption": PreemptionMode.CHEAPEST, "swap_disk_gib": 64}
NO_SNAPSHOTS: dict[str, Any] = {"snapshot_slots": 0}
NO_CACHE: dict[str, Any] = {"prefix_cache": False, "cache_per_tenant": False, **NO_SNAPSHOTS}


@st.composite
def calm_worlds(draw: st.DrawFn) -> World:
    """Pressed for memory, and nothing in them ends by a time."""
    policy = draw(st.sampled_from((Fifo, Slai)))
    world = draw(pressed_worlds(policy=policy))
    sessions = tuple(
        session._replace(turns=tuple(turn._replace(timeout_ns=None, cancel_ns=None) for turn in session.turns))
        for session in world.sessions
    )
    return replace(world, sessions=sessions, faults=FaultPlan(), num_blocks=max(world.num_blocks, longest(world)))


def longest(world: World) -> int:
    """Blocks of its longest request."""
    needed = 1
    for index, session in enumerate(world.sessions):
        for number, turn in enumerate(session.turns):
            prompt = session.prompt(index, number)
            assert prompt is not None
            needed = max(needed, blocks_for(prompt.num_tokens + turn.output_tokens, world.config.block_size))
    return needed


def endings(world: World) -> dict[int, Ending]:
    outcome = run(world)
    assert outcome.end == "done"
    return outcome.endings


def assert_same(world: World, **rules: Any) -> None:
    """Every request ends as it did when other rules hold."""
    assert endings(world) == endings(replace(world, config=replace(world.config, **rules)))


def whole_prompts(config: SchedulerConfig) -> dict[str, Any]:
    """Every prompt in one step."""
    budget = min(config.max_model_len, 1000) + config.max_num_seqs
    return {
        "chunked_prefill": False,
        "align_chunks": False,
        "max_prefill_tokens": 0,
        "max_num_batched_tokens": budget,
        "max_model_len": min(config.max_model_len, 1000),
    }


@examples(60)
@given(calm_worlds())
def test_the_cache_changes_no_answer(world: World) -> None:
    assert_same(world, **({"prefix_cache": True} if not world.config.prefix_cache else NO_CACHE))


@examples(60)
@given(calm_worlds(), st.integers(1, 40), st.integers(0, 12), st.booleans())
def test_chunks_of_any_size_change_no_answer(world: World, tokens: int, most: int, aligned: bool) -> None:
    config = replace(world.config, max_model_len=min(world.config.max_model_len, 1000))
    world = replace(world, config=config)
    budget = config.max_num_seqs + tokens
    rules = {"chunked_prefill": True, "max_num_batched_tokens": budget, "max_prefill_tokens": most}
    assert_same(world, **rules, align_chunks=aligned)
    assert_same(world, **whole_prompts(config))


@examples(60)
@given(calm_worlds(), st.sampled_from(Fusion))
def test_fused_or_separate_lanes_change_no_answer(world: World, fusion: Fusion) -> None:
    assert_same(world, fusion=fusion)


@examples(60)
@given(calm_worlds(), st.sampled_from((NO_SWAP, HOST, DISK, CHEAPEST)))
def test_computed_again_or_swapped_or_never_short_of_memory(world: World, rules: dict[str, Any]) -> None:
    plenty = sum(len(session.turns) for session in world.sessions) * longest(world)
    changed = replace(world, config=replace(world.config, **rules))
    assert endings(world) == endings(changed) == endings(replace(world, num_blocks=plenty + 20))


@examples(60)
@given(calm_worlds(), st.integers(1, 12))
def test_company_changes_no_answer(world: World, seats: int) -> None:
    budget = max(world.config.max_num_batched_tokens, seats)
    found = endings(replace(world, config=replace(world.config, max_num_seqs=seats, max_num_batched_tokens=budget)))
    for request_id, ending in found.items():
        if ending.reason in ANSWERED:
            assert ending == alone(world, request_id)
    assert found == endings(world)


class Endings:
    """Observer: when and how each request ended; it looks at nothing else."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int, FinishReason, int]] = []

    def on_finished(self, event: Finished) -> None:
        sequence = event.sequence
        self.seen.append((event.now_ns, sequence.request_id, event.reason, sequence.num_outputs))


@examples(80)
@given(pressed_worlds(), st.booleans())
def test_observers_change_nothing(world: World, leap: bool) -> None:
    """With a log, a checker and the shadow as with nobody but one who notes the ends."""
    watched, unwatched = Endings(), Endings()
    end = run_recorded(world, leap=leap, watch=lambda node: node.core.bus.add(watched)).end
    testbed = SimTestbed(SimDevice)
    node = Node(testbed, world, leap=leap, checker=Unchecked())
    node.core.bus.add(unwatched)
    node.start()
    Sessions(node, world.sessions)
    assert node.run_to_end() == end
    assert watched.seen == unwatched.seen


@examples(60)
@given(st.lists(pressed_worlds(), min_size=2, max_size=3))
def test_a_replica_alone_is_the_replica_beside_others(worlds: list[World]) -> None:
    """Schedulers that share a clock and nothing else."""
    testbed = SimTestbed(SimDevice)
    with tempfile.TemporaryDirectory() as folder:
        recorders = []
        for number, world in enumerate(worlds):
            node = Node(testbed, world)
            recorders.append(Recorder(node, Path(folder) / f"{number}.jsonl"))
            node.start()
            Sessions(node, world.sessions)
        try:
            testbed.run()
        except Stalled:
            return
        beside = [recorder.recorded("done").log for recorder in recorders]
    for world, log in zip(worlds, beside, strict=True):
        assert run_recorded(world, leap=True).log == log
