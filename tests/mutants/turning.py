"""Attacks by worlds near the points at which a decision turns: what a way costs, and what a step has room for."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from schedlab.config import Fusion, PreemptionMode, VictimRule
from schedlab.device import CopyKind
from schedlab.memory.swap import GIB
from schedlab.policies.fifo import Fifo
from schedlab.testing import constant
from tests.mutants.attack import Attack
from tests.mutants.made import one, world
from tests.mutants.moments import STEP_NS, crowd
from tests.mutants.worlds import attack_world

BLOCK_BYTES = GIB // 12
# How much faster than the others a link is, or slower.
SPEEDS = (0.05, 1, 20)
ROOMS: tuple[dict[str, Any], ...] = (
    {"swap_host_gib": 1},
    {"swap_disk_gib": 1},
    {"swap_host_gib": 1, "swap_disk_gib": 9},
)


def the_cheapest_way_turns(slow: CopyKind, cached: bool) -> None:
    """With one link that is fast or slow, little room and much: each way is the cheapest in turn."""
    for room in ROOMS:
        for number, speed in enumerate(SPEEDS):
            of = crowd(PreemptionMode.HOST, cached=cached)
            bytes_per_s = BLOCK_BYTES * 1_000_000_000 // (STEP_NS // (2, 8)[number % 2])
            links = {kind: (int(bytes_per_s * (speed if kind is slow else 1)), 0) for kind in CopyKind}
            rules = {"swap_host_gib": 0, "preemption": PreemptionMode.CHEAPEST, **room}
            cost = constant(STEP_NS, per_prefill_token_ns=STEP_NS // 4)
            config = replace(of.config, **rules)
            attack_world(replace(of, config=config, block_bytes=BLOCK_BYTES, links=links, cost=cost))


def long_and_short_ones_meet(fusion: Fusion, chunked: bool) -> None:
    """Long prompts are preempted and return, rows grow, and short prompts come that would fit in before the long."""
    long = [one(30 + index, 6, 11 * index) for index in range(6)]
    growing = [one(3, 24, at) for at in range(0, 90, 5)]
    short = [one(2, 2, at) for at in range(10, 120, 3)]
    sessions = sorted([*long, *growing, *short], key=lambda session: session.arrival_ns)
    rules = {"fusion": fusion, "chunked_prefill": chunked, "max_num_batched_tokens": 42, "max_model_len": 42}
    for victim, blocks in ((VictimRule.FEWEST_OUTPUTS, 24), (VictimRule.LAST_IN, 28), (VictimRule.FEWEST_OUTPUTS, 32)):
        attack_world(world(Fifo, blocks, *sessions, max_num_seqs=6, victim=victim, **rules))


def turning_attacks() -> list[Attack]:
    """All of them."""
    found = []
    for fusion in Fusion:
        for chunked in (False, True):
            run = partial(long_and_short_ones_meet, fusion, chunked)
            found.append(Attack(f"turning: long and short, fusion {fusion}{', chunks' * chunked}", run))
    for slow in CopyKind:
        for cached in (False, True):
            cheapest = partial(the_cheapest_way_turns, slow, cached)
            found.append(Attack(f"turning: the cheapest way, {slow}{', cached' * cached}", cheapest))
    return found
