"""Attacks by worlds that were made for what is saved and comes back: states, images, snapshots."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

from schedlab.config import PreemptionMode, ResumeRule
from schedlab.device import CopyKind
from schedlab.events import RESET, CacheReset, Preempted, Restored, Resumed, SwappedOut
from schedlab.fault_plan import CopyFailure, FaultPlan, Which
from schedlab.memory.swap import GIB
from schedlab.policies.fifo import Fifo
from schedlab.policies.view import View
from schedlab.sequence import Sequence
from schedlab.testing import Node, Session, Text, Turn, World, constant
from schedlab.testing.world import Reset
from tests.mutants.attack import Attack
from tests.mutants.made import BASE, Seen, one, said, world
from tests.mutants.moments import STEP_NS, crowd
from tests.mutants.worlds import attack_hybrid, attack_world, played

SWAPS: dict[PreemptionMode, dict[str, Any]] = {
    PreemptionMode.HOST: {"preemption": PreemptionMode.HOST, "swap_host_gib": 9},
    PreemptionMode.DISK: {"preemption": PreemptionMode.DISK, "swap_disk_gib": 9},
}


class Sizes:
    """Observer: an image has the size of its blocks and of its sequence's state."""

    def __init__(self, of: World) -> None:
        self._world = of
        self.count = 0

    def on_swapped_out(self, event: SwappedOut) -> None:
        expected = event.num_blocks * self._world.block_bytes + self._world.state_bytes
        assert event.num_bytes == expected, f"an image of {event.num_bytes} bytes, not of {expected}"
        self.count += 1


def hurried_chats(seats: int, steps_per_image: int, **rules: Any) -> World:
    """Conversations that outgrow the pool, with a state beside the blocks."""
    config = replace(
        BASE,
        max_num_batched_tokens=64,
        prefix_cache=True,
        snapshot_slots=12,
        snapshot_min_tokens=8,
        snapshot_interval_blocks=8,
        resume=ResumeRule.SMALLEST,
        max_num_seqs=seats,
        **{**SWAPS[PreemptionMode.HOST], **rules},
    )
    turns = tuple(Turn(20 + number, 30, think_ns=5000) for number in range(3))
    text = Text(family=0, shared_tokens=12, hash_block_tokens=4, grows=True)
    sessions = tuple(Session(index * 175, turns, text) for index in range(8))
    links = dict.fromkeys(CopyKind, (GIB // 2 * 1_000_000 // steps_per_image, 0))
    cost = constant(STEP_NS)
    return World(config, Fifo, cost, 30 + 10 * seats, sessions, GIB // 100, links, True, state_bytes=GIB // 2)


def states_survive_swaps() -> None:
    """Slots are used again while copies still read them, on devices that want them dense."""
    for seats, steps in ((4, 3), (6, 3), (4, 40), (6, 40)):
        of = hurried_chats(seats, steps)
        sizes = Sizes(of)
        attack_hybrid(of, sizes)
        assert sizes.count, "somebody is swapped out"


def states_are_saved_near_the_end_of_what_is_known() -> None:
    """Of conversations that are preempted, and computed again with the outputs that they had."""
    of = hurried_chats(3, 1, preemption=PreemptionMode.RECOMPUTE, swap_host_gib=0)
    for slots in (1, 3):
        attack_hybrid(replace(of, config=replace(of.config, snapshot_slots=slots, snapshot_interval_blocks=0)))


def a_decode_state_is_as_deep_as_it_was() -> None:
    """A row of 26 computed tokens was saved at 24; that is where its next turn begins."""
    found, rules = Seen(), {"snapshot_slots": 9, "snapshot_min_tokens": 4, "snapshot_decode_blocks": 2}
    chat = Session(0, (Turn(9, 18), Turn(9, 2)), said(grows=True))
    attack_hybrid(replace(world(Fifo, 60, chat, prefix_cache=True, **rules), state_bytes=64), found)
    assert found.cached == {0: 24}, found.cached


class Immunity:
    """Observer: whoever has returned is immune for so many outputs from then on."""

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens
        self.count = 0

    def on_resumed(self, event: Resumed | Restored) -> None:
        found = event.sequence.immune_until_outputs - event.sequence.num_outputs
        assert found == self._tokens, f"{event.sequence} is back, and immune for {found} outputs"
        self.count += 1

    on_restored = on_resumed


def who_returns_is_immune() -> None:
    """However it returns."""
    for mode in (PreemptionMode.RECOMPUTE, PreemptionMode.HOST):
        of, observer = crowd(mode), Immunity(6)
        attack_world(replace(of, config=replace(of.config, immunity_tokens=6)), observer)
        assert observer.count, "somebody returns"


def the_host_keeps_what_the_disk_refuses() -> None:
    """With room on both the host stands in; all bytes are counted once."""
    for number in (1, 2, 4):
        of = crowd(
            PreemptionMode.DISK, FaultPlan(copy_failures=(CopyFailure(Which((number,)), (CopyKind.HOST_TO_DISK,)),))
        )
        attack_world(replace(of, config=replace(of.config, swap_host_gib=4)))


class Stubborn(Fifo):
    """Has everybody swapped, in the middle of a prompt too."""

    def give_up(self, view: View, victim: Sequence) -> PreemptionMode:
        return PreemptionMode.HOST


def prompts_are_not_swapped() -> None:
    """Whatever the policy says: who computes its prompt begins anew."""
    for blocks in (10, 11, 12, 13):
        sessions = (one(4, 20), one(4, 20), one(30, 4, 2), one(30, 4, 3))
        attack_world(world(Stubborn, blocks, *sessions, max_num_batched_tokens=5, **SWAPS[PreemptionMode.HOST]))


class Fresh:
    """Observer: after a reset that starts all over nobody has an image, and none was lost otherwise."""

    def __init__(self, node: Node) -> None:
        self._core = node.core
        self.count = 0

    def on_preempted(self, event: Preempted) -> None:
        self.count += event.reason == RESET
        assert event.reason in (RESET, "decode", "prefill"), f"{event.sequence} gives way: {event.reason}"

    def on_cache_reset(self, event: CacheReset) -> None:
        kept = [one for one in self._core.sequences.values() if one.image is not None]
        assert event.done and not kept, f"a reset, done {event.done}, leaves the images of {kept}"


def nothing_of_before_a_reset_comes_back() -> None:
    """While several are swapped out, or on their way back."""
    seen: list[Fresh] = []

    def watch(node: Node) -> None:
        seen.append(Fresh(node))
        node.core.bus.add(seen[-1])

    for mode, at_step in product(SWAPS, (18, 24, 30, 36)):
        of, reset = crowd(mode), Reset(at_step * STEP_NS, preempt_running=True)
        config = replace(of.config, max_num_seqs=6, prefix_cache=True)
        played(replace(of, config=config, resets=(reset,)), True, watch=watch)
    assert all(one.count > 2 for one in seen), f"{[one.count for one in seen]} start over"


ATTACKS = (
    states_survive_swaps,
    states_are_saved_near_the_end_of_what_is_known,
    a_decode_state_is_as_deep_as_it_was,
    who_returns_is_immune,
    the_host_keeps_what_the_disk_refuses,
    prompts_are_not_swapped,
    nothing_of_before_a_reset_comes_back,
)


def saved_attacks() -> list[Attack]:
    """All of them."""
    return [Attack(f"made: {attack.__name__}", attack) for attack in ATTACKS]
