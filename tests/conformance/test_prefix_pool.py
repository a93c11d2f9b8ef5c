"""Sections F and G of part 2 on the pool itself: hits, references, who is evicted first.

Block numbers differ from upstream's, where free blocks are one list from the least recently used to the most. Here the
empty ones are a stack, the last to come back is the first to go out, and go before any idle cached one; the idle ones
are a list of their own. Blocks are numbered from 0.
"""

from __future__ import annotations

import pytest

from schedlab.errors import InvariantViolation, KvExhausted
from schedlab.memory.blocks import BlockPool
from schedlab.memory.prefix import CachingBlockPool
from tests.conformance.pool_readers import Reader, insert

COMMON = ("common", 48)


def test_055_a_miss_takes_new_blocks_and_leaves_the_keys_of_its_full_ones() -> None:
    pool = CachingBlockPool(10)
    r0 = Reader(pool, COMMON, ("r0", 7))
    assert (len(r0.keys), r0.hits, r0.table) == (3, [], [0, 1, 2, 3])
    assert [pool.key_of(block) for block in r0.table] == [*r0.keys, None]
    assert [pool.references(block) for block in r0.table] == [1, 1, 1, 1]


def test_056_a_hit_on_held_blocks_takes_references_and_one_new_block() -> None:
    pool = CachingBlockPool(10)
    Reader(pool, COMMON, ("r0", 7))
    r1 = Reader(pool, COMMON, ("r1", 5))
    assert r1.table == [0, 1, 2, 4]
    assert [pool.references(block) for block in r1.table] == [2, 2, 2, 1]
    assert pool.free_blocks == 5


def _after_r2() -> tuple[CachingBlockPool, Reader]:
    pool = CachingBlockPool(10)
    r0, r1 = Reader(pool, COMMON, ("r0", 7)), Reader(pool, COMMON, ("r1", 5))
    r1.leave()
    r0.leave()
    return pool, Reader(pool, COMMON, ("r2", 6))


def test_058_a_hit_on_idle_blocks_takes_them_out_of_the_middle_of_the_list() -> None:
    """The fourth block is r0's last, which came back last; upstream takes r1's, which came back first."""
    pool, r2 = _after_r2()
    assert r2.hits == [0, 1, 2]
    assert r2.table == [0, 1, 2, 3]
    assert pool.free_blocks == 6
    assert [pool.references(block) for block in range(10)] == [1, 1, 1, 1, 0, 0, 0, 0, 0, 0]


def test_059_evictions_come_after_all_empty_blocks_deepest_first() -> None:
    """Upstream takes 5 4 6 7 8 9 10 3 2 1: the same order, but for which of the two tails is first."""
    pool, r2 = _after_r2()
    r2.leave()
    assert pool.allocate(10) == [3, 4, 5, 6, 7, 8, 9, 2, 1, 0]
    assert pool.free_blocks == 0
    assert pool.cached_blocks == 0 and pool.num_evicted == 3


def test_061_the_request_that_left_first_is_evicted_first_and_a_hit_makes_blocks_the_newest() -> None:
    pool = CachingBlockPool(10)
    r0, r1 = Reader(pool, ("r0", 87)), Reader(pool, ("r1", 48))
    assert pool.free_blocks == 1
    r0.leave()
    assert pool.idle_list() == (4, 3, 2, 1, 0)
    r1.leave()
    assert pool.idle_list() == (4, 3, 2, 1, 0, 8, 7, 6)
    r2 = Reader(pool, ("r0", 32), ("r2", 3))
    assert r2.hits == [0, 1]
    assert pool.free_blocks == 7
    r2.leave()
    assert pool.idle_list() == (4, 3, 2, 8, 7, 6, 1, 0)
    assert len(pool.free_list()) == 2


def test_062_a_block_that_is_used_again_loses_its_key() -> None:
    pool = CachingBlockPool(1)
    first = Reader(pool, ("common", 16))
    first.leave()
    assert pool.key_of(0) == first.keys[0]
    second = Reader(pool, ("common", 15))
    assert second.table == [0]
    assert pool.key_of(0) is None and pool.cached_blocks == 0 and pool.num_evicted == 1


def test_074_a_lookup_can_be_kept_from_giving_everything() -> None:
    pool = CachingBlockPool(10)
    first = Reader(pool, COMMON)
    again = Reader(pool, COMMON)
    assert again.hits == [0, 1]
    assert again.table == first.table, "what it computed again was a duplicate"
    assert pool.free_blocks == 7


@pytest.mark.parametrize("pool_class", [BlockPool, CachingBlockPool])
def test_077_blocks_are_handed_out_and_come_back_with_exact_counts(pool_class: type[BlockPool]) -> None:
    """Upstream's list is a queue (0; then 1 3 4 2); a stack gives what came back last first."""
    pool = pool_class(5)
    assert pool.allocate(1) == [0] and pool.free_blocks == 4
    taken = pool.allocate(2)
    pool.release(taken[1:])
    assert pool.free_blocks == 3
    assert pool.allocate(3) == [2, 3, 4] and pool.free_blocks == 0
    with pytest.raises(KvExhausted) as failure:
        pool.allocate(1)
    assert (failure.value.needed_blocks, failure.value.free_blocks) == (1, 0)
    assert sorted(pool.free_list()) == []


def test_077_a_block_from_the_middle_of_the_idle_list_leaves_the_others_in_order() -> None:
    pool = CachingBlockPool(5)
    tables = [insert(pool, [token])[0] for token in range(5)]
    for table in tables:
        pool.release(table)
    assert pool.idle_list() == (0, 1, 2, 3, 4)
    pool.hold([2])
    assert pool.idle_list() == (0, 1, 3, 4)
    pool.release([2])
    assert pool.idle_list() == (0, 1, 3, 4, 2)
    assert pool.free_blocks == 5
    with pytest.raises(InvariantViolation):
        pool.release([2])


def test_083_a_newcomer_never_loses_its_own_hits_to_the_blocks_that_it_takes() -> None:
    """Its hits are the least recently used when it comes; what is evicted for its new block is somebody else's."""
    pool = CachingBlockPool(5)
    for text in ("mine", "other"):
        Reader(pool, (text, 32)).leave()
    pool.allocate(1)
    assert pool.idle_list() == (1, 0, 3, 2) and not pool.free_list()
    newcomer = Reader(pool, ("mine", 32), ("*", 8))
    assert newcomer.hits == [0, 1] and newcomer.table == [0, 1, 3]
    assert pool.idle_list() == (2,)
