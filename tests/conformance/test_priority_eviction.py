"""S10 with a watermark: room that appears only when the last owner has gone."""

from __future__ import annotations

from tests.conformance import harness
from tests.conformance.made import ask, made_case


def test_an_urgent_request_that_fits_an_empty_pool_evicts_whoever_is_less_important() -> None:
    """9 of 10 blocks with a watermark of 2: refused beside anyone, admitted alone."""
    asks = (ask(0, 20, 50, priority=5), ask(1, 144, 4, at_ns=5_000_000, priority=0))
    setup = {"blocks": 10, "policy": "priority", "parameters": {"evict": True}}
    run = harness.run(made_case(asks, setup, {"watermark_blocks": 2}), leap=True)
    assert run.preempted == ["R0"]
    assert run.lived["R1"].started_ns == 5_000_000
