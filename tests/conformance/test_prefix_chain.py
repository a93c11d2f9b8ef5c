"""Section I of part 2: what a radix tree promises holds for chained keys in one map, where a page is a block."""

from __future__ import annotations

import pytest

from schedlab.errors import InvariantViolation, KvExhausted
from schedlab.memory.prefix import CachingBlockPool
from tests.conformance.pool_readers import insert, match


def test_085_what_was_inserted_is_matched_as_far_as_it_is_equal() -> None:
    pool = CachingBlockPool(20)
    table, known = insert(pool, [1, 2, 3])
    assert (known, pool.cached_blocks) == (0, 3)
    pool.release(table)
    assert pool.free_blocks == 20 and pool.idle_list() == (2, 1, 0)
    assert match(pool, [1, 2, 3]) == table
    assert match(pool, [1, 2]) == table[:2]
    assert match(pool, [2, 3]) == []


@pytest.mark.parametrize("block_size", [1, 2])
def test_086_branches_share_their_beginning_and_matches_never_grow_the_cache(block_size: int) -> None:
    """Upstream counts tokens: 8, then 10 when a branch shares the first two of its four."""
    pool = CachingBlockPool(40)
    trunk, _ = insert(pool, [1, 2, 3, 4, 5, 6, 7, 8], block_size)
    branch, known = insert(pool, [1, 2, 9, 10], block_size)
    assert known * block_size == 2
    assert pool.cached_blocks * block_size == 10
    assert branch[: 2 // block_size] == trunk[: 2 // block_size]
    assert match(pool, [1, 2, 3, 4, 999, 1000], block_size) == trunk[: 4 // block_size]
    assert match(pool, [1, 2, 3, 4, 5, 6, 777], block_size) == trunk[: 6 // block_size]
    assert match(pool, [1, 2, 3, 4, 5, 6, 7, 8], block_size) == trunk
    assert match(pool, [1, 2, 9, 10], block_size) == branch
    assert pool.cached_blocks * block_size == 10


def test_088_holding_three_blocks_protects_three_and_all_before_them() -> None:
    pool = CachingBlockPool(5)
    table, _ = insert(pool, [1, 2, 3, 4, 5])
    pool.release(table)
    assert pool.free_blocks == 5
    pool.hold(table[:3])
    assert (pool.free_blocks, pool.used_blocks) == (2, 3)
    assert pool.allocate(2) == [4, 3], "only what lies behind the held ones can be had"
    with pytest.raises(KvExhausted):
        pool.allocate(1)
    assert match(pool, [1, 2, 3, 4, 5]) == table[:3]
    pool.release(table[:3])
    assert (pool.free_blocks, pool.used_blocks) == (3, 2)


def test_089_evicting_takes_leaves_only_as_many_as_are_needed() -> None:
    pool = CachingBlockPool(4)
    for tokens in ([1, 2], [3, 4]):
        pool.release(insert(pool, tokens)[0])
    before = pool.idle_list(), pool.cached_blocks
    assert pool.allocate(0) == []
    assert (pool.idle_list(), pool.cached_blocks) == before
    pool.allocate(2)
    assert pool.cached_blocks == 2 and pool.num_evicted == 2
    assert match(pool, [1, 2]) == [] and len(match(pool, [3, 4])) == 2
    with pytest.raises(KvExhausted):
        pool.allocate(3)
    assert pool.cached_blocks == 2 and pool.num_evicted == 2


def test_092_evicted_blocks_feed_allocations_and_never_twice() -> None:
    pool = CachingBlockPool(4)
    held = pool.allocate(2)
    pool.release(insert(pool, [1, 2])[0])
    first, second = pool.allocate(1), pool.allocate(1)
    assert sorted([*held, *first, *second]) == [0, 1, 2, 3]
    pool.release([*held, *first, *second])
    assert sorted(pool.allocate(4)) == [0, 1, 2, 3]


def test_094_a_late_duplicate_is_freed_once_and_its_reader_moves_to_the_known_block() -> None:
    pool = CachingBlockPool(8)
    early, _ = insert(pool, [1, 2, 3])
    late, known = insert(pool, [1, 2, 3])
    assert known == 3 and late == early
    assert [pool.references(block) for block in early] == [2, 2, 2]
    assert pool.free_blocks == 5 and pool.cached_blocks == 3
    pool.release(late)
    assert [pool.references(block) for block in early] == [1, 1, 1]
    pool.release(early)
    assert pool.free_blocks == 8
    with pytest.raises(InvariantViolation):
        pool.release(early)
