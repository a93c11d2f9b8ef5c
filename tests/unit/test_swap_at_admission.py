"""Swap-out at admission: who leaves for a newcomer, when, and that nobody is sent back and forth."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from schedlab.config import AdmissionRule, PreemptionMode, ResumeRule, SchedulerConfig
from schedlab.errors import UsageError
from schedlab.policies.priority import Priority
from schedlab.testing import World
from tests.property.world import assert_leap_equals_step
from tests.unit.shadow_helpers import one, said, small_world, steps_a_block

SWAP: dict[str, Any] = {"preemption": PreemptionMode.HOST, "swap_host_gib": 4}
OPEN: dict[str, Any] = {**SWAP, "swap_at_admission": True}


def events(world: World) -> list[tuple[str, int]]:
    """What happened to whom, steps aside; the same with leaps and without."""
    outcome = assert_leap_equals_step(world)
    assert outcome.end == "done"
    lines = [json.loads(line) for line in outcome.log.splitlines()]
    return [(line["ev"], line["id"] // 1000) for line in lines if "id" in line]


def crowded(**rules: Any) -> World:
    """The first sequence grows to all ten blocks; the second needs six of them at step 10."""
    return small_world(10, one(20, 20), one(24, 4, at_step=10), **rules)


def test_a_newcomer_without_blocks_has_an_active_sequence_swapped_out(tmp_path: Path) -> None:
    happened = events(crowded(**OPEN))
    assert happened.index(("swapped_out", 0)) < happened.index(("admitted", 1))
    assert happened.index(("finished", 1)) < happened.index(("restored", 0)) < happened.index(("finished", 0))
    assert not [one for one in happened if one[0] == "preempted"]


def test_without_it_the_newcomer_waits() -> None:
    happened = events(crowded(**SWAP))
    assert happened.index(("finished", 0)) < happened.index(("admitted", 1))
    assert not [one for one in happened if one[0] == "swapped_out"]


def test_who_left_for_a_newcomer_is_back_before_anyone_else_leaves_for_one() -> None:
    late = [one(24, 4, at_step=10 + number) for number in range(6)]
    for resume in ResumeRule:
        happened = events(small_world(10, one(20, 20), *late, **OPEN, resume=resume))
        away = 0
        for name, _ in happened:
            away += (name == "swapped_out") - (name == "restored")
            assert away <= 1
        assert sum(name == "finished" for name, _ in happened) == 7


def test_room_on_a_disk_that_only_windows_use_counts_for_nobody() -> None:
    """The host has room for 64 blocks, thus for one image; the newcomer needs those of both."""
    rules = {**OPEN, "swap_host_gib": 1, "window_blocks": 100, "swap_disk_gib": 8}
    happened = events(small_world(76, one(140, 9), one(140, 9), one(280, 2, at_step=12), **rules))
    assert happened.index(("finished", 0)) < happened.index(("swapped_out", 1)) < happened.index(("admitted", 2))
    assert not [one for one in happened if one[0] == "preempted"]


def test_the_immune_stay() -> None:
    """The first is swapped out for the second; back again, it is immune for 64 outputs and the third waits for it."""
    world = small_world(10, one(20, 20), one(24, 4, at_step=10), one(24, 4, at_step=18), **OPEN, immunity_tokens=64)
    happened = events(world)
    assert [one for one in happened if one[0] == "swapped_out"] == [("swapped_out", 0)]
    assert happened.index(("finished", 0)) < happened.index(("admitted", 2))


def test_without_room_on_the_host_nobody_leaves() -> None:
    """Images of 5 blocks and more; the host takes one of at most 4."""
    world = replace(crowded(**{**OPEN, "swap_host_gib": 1}), block_bytes=(1 << 30) // 4)
    assert not [one for one in events(world) if one[0] in ("swapped_out", "preempted")]


@pytest.mark.parametrize("need", [16, 20, 24, 28, 32])
@pytest.mark.parametrize("begins_alike", [False, True])
def test_nobody_leaves_whose_blocks_are_shared_too_much_to_help(need: int, begins_alike: bool) -> None:
    """Two rows share their prompt: one that leaves frees little, and the newcomer comes in at once or nobody leaves."""
    newcomer = one(need, 4, at_step=6, text=said() if begins_alike else None)
    shared = one(24, 30, 0, said()), one(24, 30, 2, said())
    happened = events(small_world(14, *shared, newcomer, **OPEN, prefix_cache=True))
    admitted_at = happened.index(("admitted", 2))
    left_before = [at for at, (name, _) in enumerate(happened[:admitted_at]) if name == "swapped_out"]
    assert left_before == list(range(admitted_at - len(left_before), admitted_at))


def test_cheapest_keeps_those_whom_computing_again_suits_better() -> None:
    links = steps_a_block(1000)
    world = small_world(10, one(20, 20), one(24, 4, at_step=10), links=links, **OPEN)
    world = replace(world, config=replace(world.config, preemption=PreemptionMode.CHEAPEST, swap_host_gib=4))
    assert not [one for one in events(world) if one[0] in ("swapped_out", "preempted")]


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({"swap_at_admission": True}, "preemption=recompute never does"),
        ({**OPEN, "admission": AdmissionRule.COMMIT}, "needs admission=prompt"),
    ],
)
def test_where_it_has_no_effect_it_is_refused(rules: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        SchedulerConfig(**rules)


def test_it_and_evict_are_two_answers_to_one_question() -> None:
    with pytest.raises(UsageError, match="leave one of them out"):
        Priority(SchedulerConfig(**OPEN), evict=True)
