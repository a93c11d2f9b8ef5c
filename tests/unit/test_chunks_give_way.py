"""Prefills in one step, one of which finds no blocks."""

from __future__ import annotations

from schedlab.config import AdmissionRule, SchedulerConfig, VictimRule
from tests.unit.hand_device import Hand, HandDevice


def test_one_that_gives_way_leaves_the_step_to_the_later_ones() -> None:
    """Three prompts of six blocks in a pool of 15: at the sixth piece the first is its own victim."""
    config = SchedulerConfig(
        max_num_seqs=4,
        max_num_batched_tokens=12,
        max_prefill_tokens=4,
        admission=AdmissionRule.COMMIT,
        watermark_tokens=0,
        overcommit_percent=200,
        victim=VictimRule.FEWEST_OUTPUTS,
        block_size=4,
    )
    one = Hand(config, HandDevice(num_blocks=15, state_bytes=0))
    for request_id in (1, 2, 3):
        one.submit(request_id, (), 24, outputs=2)
    one.tick(6)
    last = [(chunk.sequence.request_id, chunk.start, chunk.num_tokens) for chunk in one.device.steps[-1].chunks]
    assert last == [(2, 20, 4), (3, 20, 4)]
    assert one.sequence(1).num_preemptions == 1
