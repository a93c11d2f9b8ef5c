"""Attacks by pressed worlds that are bent towards what few of them reach: rules that need one another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from schedlab.config import AdmissionRule, Fusion, PreemptionMode, ResumeRule
from schedlab.device import CopyKind
from schedlab.errors import UsageError
from schedlab.fault_plan import CopyFailure, FaultPlan, Which
from schedlab.memory.swap import GIB
from schedlab.policies.priority import Priority
from schedlab.testing import Session, Text, Turn, World, constant
from schedlab.testing.strategies import pressed_worlds
from schedlab.testing.world import Reset
from tests.mutants.attack import Attack
from tests.mutants.moments import STEP_NS
from tests.mutants.seeded import drawn
from tests.mutants.worlds import attack_world

NS_PER_S = 1_000_000_000
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


def late(world: World, index: int) -> World:
    """Important newcomers take seats, and copies take many steps: whatever they were for starts over meanwhile."""
    rules = {
        "max_num_seqs": 2 + index % 3,
        "max_num_batched_tokens": 40,
        "max_model_len": 200,
        "chunked_prefill": True,
        "admission": AdmissionRule.PROMPT,
        "watermark_tokens": -1,
        "overcommit_percent": 100,
        "resume": ResumeRule.IN_LINE,
        "preemption": (PreemptionMode.HOST, PreemptionMode.DISK)[index % 2],
        "swap_host_gib": 9,
        "swap_disk_gib": 9 * (index % 2),
        "swap_at_admission": False,
        "window_blocks": 0,
    }
    sessions = [
        session._replace(turns=tuple(turn._replace(output_tokens=turn.output_tokens + 30) for turn in session.turns))
        for session in world.sessions
    ]
    sessions += [Session(STEP_NS * 6 * number, (Turn(3, 3, priority=-9),)) for number in range(25)]
    block_bytes = GIB // 40
    speeds = {kind: STEP_NS * (1, 5, 15)[(index + number) % 3] for number, kind in enumerate(CopyKind)}
    every_ns = STEP_NS * (37, 53, 71)[index % 3]
    return replace(
        world,
        config=replace(world.config, **rules),
        policy=partial(Priority, evict=True),
        cost=constant(STEP_NS),
        num_blocks=4 * world.num_blocks,
        sessions=tuple(sessions),
        block_bytes=block_bytes,
        links={kind: (block_bytes * NS_PER_S // per_block_ns, 0) for kind, per_block_ns in speeds.items()},
        faults=FaultPlan(copy_failures=(CopyFailure(Which((), 0.2, index), tuple(CopyKind)),) if index % 2 else ()),
        resets=tuple(Reset(every_ns * number, preempt_running=True) for number in range(1, 9)),
    )


def kin(world: World, index: int) -> World:
    """Most say the same, so that much of what one holds others hold too; images are lost; who finds much may pass."""
    rules = {
        "max_num_seqs": 3 + index % 4,
        "max_bypass": index % 3,
        "admission": AdmissionRule.PROMPT,
        "watermark_tokens": -1,
        "overcommit_percent": 100,
        "preemption": (PreemptionMode.HOST, PreemptionMode.DISK, PreemptionMode.RECOMPUTE)[index % 3],
        "swap_host_gib": 9 * (index % 3 == 0),
        "swap_disk_gib": 9 * (index % 3 == 1),
        "swap_at_admission": False,
        "window_blocks": 0,
        "prefix_cache": True,
        "cache_per_tenant": False,
    }
    size = world.config.block_size
    sessions = [
        session._replace(text=Text(number % 4 // 3, 1000, size, grows=len(session.turns) > 1))
        for number, session in enumerate(world.sessions)
    ]
    lost = (CopyFailure(Which((), 0.5, index), (CopyKind.DEVICE_TO_HOST, CopyKind.HOST_TO_DISK)),)
    block_bytes = GIB // 40
    return replace(
        world,
        config=replace(world.config, **rules),
        sessions=tuple(sessions),
        cost=constant(STEP_NS),
        block_bytes=block_bytes,
        links=dict.fromkeys(CopyKind, (block_bytes * NS_PER_S // (STEP_NS * (1, 4)[index % 2]), 0)),
        faults=FaultPlan(copy_failures=lost if index % 3 < 2 else ()),
        resets=(),
    )


BENDS: tuple[Bend, ...] = (urgent, crossing, unfused, sliding, late, kin)


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
