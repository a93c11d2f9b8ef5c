"""S37: an allocation that fails gives back nothing because it has taken nothing.

Sources: inference-sim/inference-sim#200 <https://github.com/inference-sim/inference-sim/issues/200>,
neuralmagic/vllm#92 <https://github.com/neuralmagic/vllm/pull/92>.
"""

from __future__ import annotations

import pytest

from schedlab.errors import InvariantViolation, KvExhausted
from schedlab.memory.blocks import BlockPool
from schedlab.memory.prefix import CachingBlockPool


def _state(pool: BlockPool) -> tuple[object, ...]:
    blocks = range(pool.total_blocks)
    cache: tuple[object, ...] = ()
    if isinstance(pool, CachingBlockPool):
        cache = pool.idle_list(), [pool.key_of(block) for block in blocks], pool.cached_blocks, pool.version
    return pool.free_list(), pool.free_blocks, [pool.references(block) for block in blocks], pool.num_evicted, cache


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


@pytest.mark.parametrize("missing", [1, 2, 7])
@pytest.mark.parametrize("held_hits", range(4))
@pytest.mark.parametrize("idle", range(5))
def test_s37_a_failure_behind_cached_hits_leaves_the_cache_as_it_was(idle: int, held_hits: int, missing: int) -> None:
    """Of 12 blocks 3 cached ones are held, `idle` others are not, 2 are empty. A newcomer takes its hits and fails."""
    pool = CachingBlockPool(12)
    table = pool.allocate(3)
    pool.publish([1, 2, 3], table, 0, 3)
    others = pool.allocate(idle)
    pool.publish(list(range(10, 10 + idle)), others, 0, idle)
    pool.allocate(7 - idle)
    pool.release(others)
    assert pool.free_blocks == 2 + idle
    before = _state(pool)
    hits = pool.lookup([1, 2, 3], held_hits)
    pool.hold(hits)
    with pytest.raises(KvExhausted) as failure:
        pool.allocate(2 + idle + missing)
    assert (failure.value.needed_blocks, failure.value.free_blocks) == (2 + idle + missing, 2 + idle)
    pool.release(hits)
    assert _state(pool) == before


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
