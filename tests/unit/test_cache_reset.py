"""Emptying the prefix cache while a scheduler runs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from backends.sim.shadow_kv import ShadowDevice
from schedlab.config import PreemptionMode, SchedulerConfig
from schedlab.testing import Reset, Session
from tests.property.world import run
from tests.unit.hand_device import Hand, HandDevice
from tests.unit.shadow_helpers import STEP_NS, one, said, small_world

SWAP: dict[str, Any] = {"preemption": PreemptionMode.HOST, "swap_host_gib": 4}


def log(
    reset_step: int, *sessions: Session, preempt_running: bool = False, num_blocks: int = 40, **rules: Any
) -> list[dict[str, Any]]:
    """Events of a run in which somebody resets the cache at that step; the shadow and the laws look on."""
    world = small_world(num_blocks, *sessions, prefix_cache=True, **rules)
    recorded = run(
        replace(world, resets=(Reset(reset_step * STEP_NS, preempt_running),)), leap=True, device_class=ShadowDevice
    )
    assert recorded.end == "done"
    return [json.loads(line) for line in recorded.log.splitlines()]


def cached_tokens(events: list[dict[str, Any]]) -> list[int]:
    return [event["cached"] for event in events if event["ev"] == "admitted"]


def resets(events: list[dict[str, Any]]) -> list[bool]:
    return [event["done"] for event in events if event["ev"] == "cache_reset"]


def test_070_between_two_requests_it_empties_the_cache() -> None:
    first, second = one(24, 2, 0, said()), one(24, 2, 20, said())
    assert cached_tokens(log(30, first, second)) == [0, 20]
    events = log(10, first, second)
    assert (cached_tokens(events), resets(events)) == ([0, 0], [True])


def test_070_while_a_block_is_in_use_it_is_refused_and_nothing_changes() -> None:
    events = log(10, one(24, 30, 0, said()), one(24, 2, 20, said()))
    assert (cached_tokens(events), resets(events)) == ([0, 20], [False])


def test_070_with_those_that_run_they_start_over_in_their_order() -> None:
    events = log(10, one(24, 30, 0, said()), one(24, 30, 1, said()), one(24, 2, 60, said()), preempt_running=True)
    assert resets(events) == [True]
    again = [event["id"] for event in events if event["ev"] == "resumed"]
    assert again == sorted(again) and len(again) == 2
    assert [event["outputs"] for event in events if event["ev"] == "finished"] == [30, 30, 2]
    reset_at = next(index for index, event in enumerate(events) if event["ev"] == "cache_reset")
    chunks = [chunk for event in events[reset_at:] if event["ev"] == "step" for chunk in event["chunks"]]
    assert next(chunk[1] for chunk in chunks if chunk[0] == again[0]) == 0, "the first computes everything again"


@pytest.mark.parametrize("reset_step", range(8, 40, 2))
def test_images_of_before_are_dropped_wherever_they_are(reset_step: int) -> None:
    """Three sequences that do not fit together: one is swapped out, on its way, or coming back."""
    crowd = [one(12, 30, number, said()) for number in range(3)]
    events = log(reset_step, *crowd, preempt_running=True, num_blocks=22, **SWAP)
    assert resets(events) == [True]
    assert sorted(event["outputs"] for event in events if event["ev"] == "finished") == [30, 30, 30]


@pytest.mark.parametrize("preempt_running", [False, True])
def test_blocks_of_a_swapped_out_request_are_in_use_though_the_device_is_empty(preempt_running: bool) -> None:
    """Two of six blocks each, that grow, in a pool of ten; the one on the device goes as the reset comes."""
    config = SchedulerConfig(prefix_cache=True, block_size=4, preemption=PreemptionMode.HOST, swap_host_gib=1)
    hand = Hand(config, HandDevice(num_blocks=10, state_bytes=0))
    done: list[bool] = []
    hand.core.bus.on_cache_reset.append(lambda event: done.append(event.done))
    for request_id in (1, 2):
        hand.submit(request_id, range(4), 16)
    while not hand.core.parked:
        hand.tick()
    (swapped,) = hand.core.parked
    hand.cancel(3 - swapped.request_id)
    hand.reset_cache(preempt_running=preempt_running)
    hand.core.begin_tick()
    assert (hand.core.pool.free_blocks, done) == (10, [preempt_running])
    assert (swapped.image is None) is preempt_running
    hand.core.end_tick()
    assert (swapped.num_computed == 0) is preempt_running


@pytest.mark.parametrize(("in_use", "goes_on_from", "saves"), [(True, 384, 1), (False, 0, 2)])
def test_saved_states_stay_where_it_is_refused_and_go_where_it_is_done(
    in_use: bool, goes_on_from: int, saves: int
) -> None:
    """What is computed again after it is saved anew: no state of before is taken for it."""
    hand = Hand(SchedulerConfig(prefix_cache=True, snapshot_slots=8), HandDevice())
    hand.submit(1, range(500, 525), 401, "session", outputs=9 if in_use else 1)
    hand.tick(3)
    assert (1 in hand.core.sequences) is in_use
    hand.reset_cache()
    hand.submit(2, range(500, 525), 401, "session")
    hand.tick(2)
    assert hand.sequence(2).num_cached_tokens == goes_on_from
    assert [moved[0] for moved in hand.device.moved].count("save") == saves
