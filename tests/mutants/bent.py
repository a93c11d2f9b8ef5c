"""Attacks by pressed worlds that are bent towards what few of them reach: rules that need one another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from schedlab.config import AdmissionRule, Fusion, PreemptionMode, ResumeRule
from schedlab.errors import UsageError
from schedlab.policies.priority import Priority
from schedlab.testing import World
from schedlab.testing.strategies import pressed_worlds
from schedlab.testing.world import Reset
from tests.mutants.attack import Attack
from tests.mutants.seeded import drawn
from tests.mutants.worlds import attack_world

Bend = Callable[[World, int], World]


def urgent(world: World, index: int) -> World:
    """Important newcomers evict, and evicted ones stand in line."""
    rules = {"resume": ResumeRule.IN_LINE, "swap_at_admission": False}
    return replace(world, config=replace(world.config, **rules), policy=partial(Priority, evict=True))


def crossing(world: World, index: int) -> World:
    """Newcomers have rows swapped out, some of which are immune."""
    rules = {
        "admission": AdmissionRule.PROMPT,
        "watermark_tokens": -1,
        "overcommit_percent": 100,
        "preemption": (PreemptionMode.HOST, PreemptionMode.DISK, PreemptionMode.CHEAPEST)[index % 3],
        "swap_host_gib": 2,
        "swap_disk_gib": 2,
        "swap_at_admission": True,
        "immunity_tokens": (0, 3, 9)[index // 3 % 3],
    }
    return replace(world, config=replace(world.config, **rules))


def unfused(world: World, index: int) -> World:
    """First chunks run alone, and every other request ends with its prompt or with its first tokens."""
    sessions = []
    for number, session in enumerate(world.sessions):
        turns = tuple(turn._replace(max_tokens=index % 3) if number % 2 else turn for turn in session.turns)
        sessions.append(session._replace(turns=turns))
    config = replace(world.config, fusion=(Fusion.NONE, Fusion.CONTINUE)[index % 2])
    return replace(world, config=config, sessions=tuple(sessions))


def sliding(world: World, index: int) -> World:
    """Rows grow beyond the pool, and all start over in the middle."""
    rules = {
        "admission": AdmissionRule.PROMPT,
        "watermark_tokens": -1,
        "overcommit_percent": 100,
        "window_blocks": 1 + index % 3,
        "swap_disk_gib": 2,
        "prefix_cache": index % 2 == 0,
        "cache_per_tenant": False,
        "snapshot_slots": 0,
    }
    middle_ns = max(session.arrival_ns for session in world.sessions) + 10_000
    resets = tuple(Reset(middle_ns + 7_000 * number, preempt_running=True) for number in range(3))
    num_blocks = max(2, world.num_blocks // 2)
    return replace(world, config=replace(world.config, **rules), num_blocks=num_blocks, state_bytes=0, resets=resets)


BENDS: tuple[Bend, ...] = (urgent, crossing, unfused, sliding)


def bent_attacks(count: int, seed: int) -> list[Attack]:
    """So many of each kind, less those whose rules contradict one another."""
    found = []
    for bend in BENDS:
        for index, world in enumerate(drawn(pressed_worlds(), count, seed)):
            try:
                bent = bend(world, index)
                bent.policy(bent.config)
            except UsageError:
                continue
            found.append(Attack(f"{bend.__name__} world {index}", partial(attack_world, bent)))
    return found
