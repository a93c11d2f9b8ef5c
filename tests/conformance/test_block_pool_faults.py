"""S37: an allocation that fails gives back nothing because it has taken nothing.

Source: inference-sim/inference-sim#200 <https://github.com/inference-sim/inference-sim/issues/200>. Cached hits come
with the prefix cache.
"""

from __future__ import annotations

import pytest

from schedlab.errors import InvariantViolation, KvExhausted
from schedlab.memory.blocks import BlockPool


def _state(pool: BlockPool) -> tuple[object, ...]:
    return pool.free_list(), [pool.references(block) for block in range(pool.total_blocks)]


@pytest.mark.parametrize("free", range(12))
@pytest.mark.parametrize("missing", [1, 2, 7])
def test_s37_an_allocation_that_fails_at_any_block_changes_nothing(free: int, missing: int) -> None:
    pool = BlockPool(12)
    held = pool.allocate(12 - free)
    pool.share(held[:3])
    before = _state(pool)
    with pytest.raises(KvExhausted) as failure:
        pool.allocate(free + missing)
    assert (failure.value.needed_blocks, failure.value.free_blocks) == (free + missing, free)
    assert _state(pool) == before
    assert len(pool.allocate(free)) == free


def test_s37_what_was_free_before_a_failure_comes_in_the_same_order_after_it() -> None:
    failing, untouched = BlockPool(6), BlockPool(6)
    for pool in (failing, untouched):
        pool.release(pool.allocate(4)[1:3])
    with pytest.raises(KvExhausted):
        failing.allocate(5)
    assert failing.allocate(4) == untouched.allocate(4)


def test_a_block_is_free_when_its_last_holder_lets_go_and_not_before() -> None:
    pool = BlockPool(4)
    table = pool.allocate(2)
    pool.share(table)
    assert pool.release(table) == 0
    assert pool.free_blocks == 2
    assert pool.release(table) == 2
    assert pool.free_blocks == 4


def test_letting_go_of_a_free_block_is_a_violation_and_leaves_no_block_twice() -> None:
    pool = BlockPool(4)
    table = pool.allocate(1)
    pool.release(table)
    with pytest.raises(InvariantViolation):
        pool.release(table)
    assert sorted(pool.free_list()) == [0, 1, 2, 3]
    with pytest.raises(InvariantViolation):
        pool.share([0])
