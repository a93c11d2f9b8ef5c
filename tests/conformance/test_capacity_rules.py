"""K.103 and K.110: committing all that a request may grow to preempts nobody; admission by need fills more."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance import harness
from tests.conformance.made import made_case, readers
from tests.conformance.recorder import Recorder

CONFIG = {"max_num_seqs": 32, "max_num_batched_tokens": 96}


def _run(seed: int, blocks: int, **config: Any) -> Recorder:
    return harness.run(made_case(readers(200, seed), {"blocks": blocks}, {**CONFIG, **config}), leap=True)


def _mean_batch(run: Recorder) -> float:
    """Rows of a step that decode."""
    decoding = [sum(count == 1 for count in step.tokens.values()) for step in run.steps]
    return sum(decoding) / len(decoding)


@pytest.mark.parametrize("cache", [False, True], ids=["plain", "cached"])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("blocks", [12, 30])
def test_103_worst_case_reservation_preempts_nobody(seed: int, blocks: int, cache: bool) -> None:
    """A commitment counts blocks that others hold too, so hits make it no smaller, whoever ends first."""
    run = _run(seed, blocks, admission="commit", prefix_cache=cache)
    assert run.preempted == []
    assert {str(one.reason) for one in run.lived.values()} == {"length"}


@pytest.mark.parametrize("seed", range(2))
def test_110_no_evict_never_preempts_more_and_need_never_fills_less(seed: int) -> None:
    by_limit = _run(seed, 24, admission="commit", prefix_cache=False)
    by_need = _run(seed, 24, admission="prompt", prefix_cache=False)
    assert by_limit.preempted == [] and by_need.preempted
    assert _mean_batch(by_need) >= _mean_batch(by_limit)
