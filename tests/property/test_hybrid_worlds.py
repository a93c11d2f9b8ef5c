"""Sequences with a state: leaps equal steps, what is restored fits, every token is computed once or accounted for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, note

from schedlab.config import PreemptionMode, ResumeRule, SchedulerConfig
from schedlab.device import CopyKind
from schedlab.events import SwappedOut
from schedlab.memory.swap import GIB
from schedlab.policies.fifo import Fifo
from schedlab.testing import Node, Session, Text, Turn, World, constant
from schedlab.testing.hostile import Moody
from schedlab.testing.strategies import hybrid_worlds
from tests.property.effort import examples
from tests.property.hybrid import Ran, run
from tests.property.world import assert_same


def assert_leap_equals_step(world: World) -> Ran:
    leapt, stepped = run(world, leap=True), run(world, leap=False)
    assert_same(leapt.outcome, stepped.outcome)
    assert leapt == stepped
    return leapt


@given(hybrid_worlds())
@examples(150)
def test_any_hybrid_world_looks_the_same_with_and_without_leaps_and_keeps_the_laws(world: World) -> None:
    note(str(world.config))
    ran = assert_leap_equals_step(world)
    counts = ran.counts
    assert counts["used_slots"] == len(ran.left) <= counts["slots"]
    assert counts["saved"] >= counts["used_slots"] + counts["evicted"]
    if not counts["slots"]:
        assert ran.restored_tokens == 0
    if not isinstance(world.policy(world.config), Moody):
        accepted, ended, *_ = ran.outcome.counts
        assert (ran.outcome.end, ended) == ("done", accepted)


def chat(**rules: object) -> World:
    """Ten conversations of four turns that each begin with all that was said before, in a pool that holds them all."""
    config = SchedulerConfig(
        max_num_seqs=8, max_num_batched_tokens=64, block_size=4, prefix_cache=True, snapshot_slots=40
    )
    config = replace(config, snapshot_min_tokens=8, snapshot_interval_blocks=8, **rules)  # type: ignore[arg-type]
    turns = tuple(Turn(prompt_tokens=20 + number, output_tokens=30, think_ns=5000) for number in range(4))
    sessions = tuple(
        Session(index * 700, turns, Text(family=0, shared_tokens=12, hash_block_tokens=4, grows=True))
        for index in range(10)
    )
    return World(config, Fifo, constant(1000), 2000, sessions, state_bytes=1)


def test_later_turns_go_on_from_what_the_turns_before_left() -> None:
    ran = assert_leap_equals_step(chat())
    computed = ran.outcome.counts[2]
    assert ran.counts["used"] >= 30
    assert computed + ran.restored_tokens == sum(chat_prompts())
    assert ran.restored_tokens > 0.6 * sum(chat_prompts())


def chat_prompts() -> list[int]:
    return [sum(20 + before + 30 for before in range(number)) + 20 + number for _ in range(10) for number in range(4)]


def test_without_snapshots_nothing_is_skipped_and_the_loss_is_counted() -> None:
    ran = assert_leap_equals_step(chat(snapshot_slots=0))
    assert (ran.restored_tokens, ran.counts["used"], ran.counts["saved"]) == (0, 0, 0)
    assert ran.outcome.counts[2] == sum(chat_prompts())
    assert ran.counts["cut_hits"] >= 30 and ran.counts["cut_tokens"] > 0.6 * sum(chat_prompts())


def test_decode_snapshots_make_the_next_turn_skip_the_answer_too() -> None:
    with_them, without = (assert_leap_equals_step(chat(snapshot_decode_blocks=every)) for every in (1, 0))
    assert with_them.restored_tokens > without.restored_tokens + 30 * 12


@pytest.mark.parametrize("seats", [3, 4, 6])
@pytest.mark.parametrize("steps_per_image", [3, 40])
def test_states_survive_swaps_and_take_their_room(seats: int, steps_per_image: int) -> None:
    """Too few blocks and slow links: rows are swapped out and back with their states, and their slots are used again
    while copies still read them."""
    rules = {"resume": ResumeRule.SMALLEST, "swap_host_gib": 9, "max_num_seqs": seats}
    world = chat(preemption=PreemptionMode.HOST, **rules)
    state_bytes = GIB // 2
    link = (state_bytes * 1_000_000 // steps_per_image, 0)
    hurried = tuple(session._replace(arrival_ns=session.arrival_ns // 4) for session in world.sessions)
    world = replace(world, num_blocks=30 + 10 * seats, block_bytes=GIB // 100, state_bytes=state_bytes)
    world = replace(world, sessions=hurried, links=dict.fromkeys(CopyKind, link))
    swapped: list[int] = []
    ran = run(world, leap=True, watch=lambda node: node.core.bus.add(_Sizes(swapped, world)))
    assert ran == run(world, leap=False)
    assert ran.outcome.end == "done" and len(swapped) >= 3


def test_what_a_sequence_holds_is_dropped_when_it_leaves_from_the_host() -> None:
    """Cancelled while swapped out: its decode snapshot was never findable and its slot comes back."""
    world = chat(preemption=PreemptionMode.HOST, swap_host_gib=9, max_num_seqs=6, snapshot_decode_blocks=1)
    world = replace(world, num_blocks=60, block_bytes=GIB // 100, state_bytes=GIB // 2)
    held: list[int] = []

    class Cancels:
        """Observer: a sequence that has gone to the host is cancelled there."""

        def __init__(self, node: Node) -> None:
            self._node = node

        def on_swapped_out(self, event: SwappedOut) -> None:
            core, sequence = self._node.core, event.sequence
            assert core.snapshots is not None
            if core.snapshots.held_by(sequence.arrival_index) is not None:
                held.append(sequence.request_id)
            self._node.cancel(sequence.request_id)

    ran = run(world, leap=True, watch=lambda node: node.core.bus.add(Cancels(node)))
    assert held and ran.outcome.end == "done"


class _Sizes:
    """Observer: the size of each image."""

    def __init__(self, swapped: list[int], world: World) -> None:
        self._swapped = swapped
        self._world = world

    def on_swapped_out(self, event: SwappedOut) -> None:
        assert event.num_bytes == event.num_blocks * self._world.block_bytes + self._world.state_bytes
        self._swapped.append(event.num_bytes)
