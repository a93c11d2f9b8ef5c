"""Whom an urgent request has preempted: all that it needs, or nobody."""

from __future__ import annotations

import pytest

from schedlab.config import PreemptionMode, SchedulerConfig
from schedlab.policies.priority import Priority
from schedlab.sequence import State
from tests.unit.hand_device import Hand, HandDevice


@pytest.mark.parametrize(("prompt_tokens", "comes_in"), [(16, True), (20, False)])
def test_the_watermark_is_kept_free_for_one_that_is_on_its_way_back(prompt_tokens: int, comes_in: bool) -> None:
    """12 blocks, 6 of them for the one that is restored, 3 of an active row that could go, and a watermark of 2."""
    config = SchedulerConfig(
        block_size=4, watermark_blocks=2, preemption=PreemptionMode.HOST, swap_host_gib=1, immunity_tokens=0
    )
    hand = Hand(config, HandDevice(num_blocks=12, state_bytes=0), Priority(config, evict=True))
    for request_id in (1, 2):
        hand.submit(request_id, (), 16, priority=request_id)
    while not hand.core.parked:
        hand.tick()
    hand.cancel(1)
    hand.tick()
    assert [(one.request_id, len(one.block_table)) for one in hand.core.restoring] == [(2, 6)]
    hand.submit(5, (), 8, priority=5)
    hand.tick(2)
    assert (hand.sequence(5).state, len(hand.sequence(5).block_table)) == (State.ACTIVE, 3)
    hand.submit(3, (), prompt_tokens, priority=3)
    hand.tick()
    assert (hand.sequence(3).state is State.PENDING) is not comes_in
    assert (hand.sequence(5).state is State.ACTIVE) is not comes_in
