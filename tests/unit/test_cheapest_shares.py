"""What computing a victim again costs when others hold the beginning of its text."""

from __future__ import annotations

from tests.unit.shadow_helpers import STEP_NS, one, said, small_world
from tests.unit.stopped_run import stopped_at


def test_tokens_in_blocks_that_others_hold_too_cost_nothing() -> None:
    core = stopped_at(10, small_world(40, one(24, 40, 0, said()), one(24, 40, 2, said()), prefix_cache=True))
    first, second = core.batch.rows
    assert second.num_cached_tokens == 20
    alone = stopped_at(10, small_world(40, one(24, 40, 0), one(24, 40, 2), prefix_cache=True))
    tokens = first.num_prompt_tokens + core.view.outputs(first)
    assert alone.view.recompute_ns(next(iter(alone.batch.rows))) == STEP_NS, f"{tokens} tokens fill a step of 32"
    assert core.view.recompute_ns(first) == STEP_NS * (tokens - 24) // 32, "all six blocks of the prompt are shared"
