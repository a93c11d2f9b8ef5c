"""Sections F, G and I of part 2 on the pool itself: hits, references, who is evicted first, late duplicates.

Block numbers differ from upstream's, where free blocks are one list from the least recently used to the most. Here the
empty ones are a stack, the last to come back is the first to go out, and go before any idle cached one; the idle ones
are a list of their own. Blocks are numbered from 0.
"""

from __future__ import annotations

import pytest

from schedlab.errors import InvariantViolation, KvExhausted
from schedlab.memory.blocks import BlockPool, blocks_for
from schedlab.memory.prefix import CachingBlockPool
from tests.conformance.texts import Texts


class Reader:
    """Takes and leaves blocks as a sequence with a text does."""

    def __init__(self, pool: CachingBlockPool, *pieces: tuple[str, int], block_size: int = 16) -> None:
        prompt = TEXTS.prompt(pieces, "")
        self.pool = pool
        self.keys = prompt.block_keys(block_size)
        self.hits = pool.lookup(self.keys, (prompt.num_tokens - 1) // block_size)
        pool.hold(self.hits)
        missing = blocks_for(prompt.num_tokens, block_size) - len(self.hits)
        self.table = self.hits + pool.allocate(missing)
        pool.publish(self.keys, self.table, len(self.hits), len(self.keys))

    def leave(self) -> None:
        self.pool.release(self.table)


TEXTS = Texts()
COMMON = ("common", 48)


def _tokens(*tokens: int) -> list[tuple[str, int]]:
    return [(str(token), 1) for token in tokens]


def _match(pool: CachingBlockPool, tokens: list[int], block_size: int = 1) -> list[int]:
    keys = TEXTS.prompt(_tokens(*tokens), "").block_keys(block_size)
    return pool.lookup(keys, len(keys))


def _insert(pool: CachingBlockPool, tokens: list[int], block_size: int = 1) -> tuple[list[int], int]:
    """Compute all of it anew, then publish: the table that is left, and how many of its blocks were known before."""
    keys = TEXTS.prompt(_tokens(*tokens), "").block_keys(block_size)
    table = pool.allocate(len(keys))
    return table, pool.publish(keys, table, 0, len(keys))


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
    tables = [_insert(pool, [token])[0] for token in range(5)]
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


def test_085_what_was_inserted_is_matched_as_far_as_it_is_equal() -> None:
    pool = CachingBlockPool(20)
    table, known = _insert(pool, [1, 2, 3])
    assert (known, pool.cached_blocks) == (0, 3)
    pool.release(table)
    assert pool.free_blocks == 20 and pool.idle_list() == (2, 1, 0)
    assert _match(pool, [1, 2, 3]) == table
    assert _match(pool, [1, 2]) == table[:2]
    assert _match(pool, [2, 3]) == []


@pytest.mark.parametrize("block_size", [1, 2])
def test_086_branches_share_their_beginning_and_matches_never_grow_the_cache(block_size: int) -> None:
    """Upstream counts tokens: 8, then 10 when a branch shares the first two of its four."""
    pool = CachingBlockPool(40)
    trunk, _ = _insert(pool, [1, 2, 3, 4, 5, 6, 7, 8], block_size)
    branch, known = _insert(pool, [1, 2, 9, 10], block_size)
    assert known * block_size == 2
    assert pool.cached_blocks * block_size == 10
    assert branch[: 2 // block_size] == trunk[: 2 // block_size]
    assert _match(pool, [1, 2, 3, 4, 999, 1000], block_size) == trunk[: 4 // block_size]
    assert _match(pool, [1, 2, 3, 4, 5, 6, 777], block_size) == trunk[: 6 // block_size]
    assert _match(pool, [1, 2, 3, 4, 5, 6, 7, 8], block_size) == trunk
    assert _match(pool, [1, 2, 9, 10], block_size) == branch
    assert pool.cached_blocks * block_size == 10


def test_088_holding_three_blocks_protects_three_and_all_before_them() -> None:
    pool = CachingBlockPool(5)
    table, _ = _insert(pool, [1, 2, 3, 4, 5])
    pool.release(table)
    assert pool.free_blocks == 5
    pool.hold(table[:3])
    assert (pool.free_blocks, pool.used_blocks) == (2, 3)
    assert pool.allocate(2) == [4, 3], "only what lies behind the held ones can be had"
    with pytest.raises(KvExhausted):
        pool.allocate(1)
    assert _match(pool, [1, 2, 3, 4, 5]) == table[:3]
    pool.release(table[:3])
    assert (pool.free_blocks, pool.used_blocks) == (3, 2)


def test_089_evicting_takes_leaves_only_as_many_as_are_needed() -> None:
    pool = CachingBlockPool(4)
    for tokens in ([1, 2], [3, 4]):
        pool.release(_insert(pool, tokens)[0])
    before = pool.idle_list(), pool.cached_blocks
    assert pool.allocate(0) == []
    assert (pool.idle_list(), pool.cached_blocks) == before
    pool.allocate(2)
    assert pool.cached_blocks == 2 and pool.num_evicted == 2
    assert _match(pool, [1, 2]) == [] and len(_match(pool, [3, 4])) == 2
    with pytest.raises(KvExhausted):
        pool.allocate(3)
    assert pool.cached_blocks == 2 and pool.num_evicted == 2


def test_092_evicted_blocks_feed_allocations_and_never_twice() -> None:
    pool = CachingBlockPool(4)
    held = pool.allocate(2)
    pool.release(_insert(pool, [1, 2])[0])
    first, second = pool.allocate(1), pool.allocate(1)
    assert sorted([*held, *first, *second]) == [0, 1, 2, 3]
    pool.release([*held, *first, *second])
    assert sorted(pool.allocate(4)) == [0, 1, 2, 3]


def test_094_a_late_duplicate_is_freed_once_and_its_reader_moves_to_the_known_block() -> None:
    pool = CachingBlockPool(8)
    early, _ = _insert(pool, [1, 2, 3])
    late, known = _insert(pool, [1, 2, 3])
    assert known == 3 and late == early
    assert [pool.references(block) for block in early] == [2, 2, 2]
    assert pool.free_blocks == 5 and pool.cached_blocks == 3
    pool.release(late)
    assert [pool.references(block) for block in early] == [1, 1, 1]
    pool.release(early)
    assert pool.free_blocks == 8
    with pytest.raises(InvariantViolation):
        pool.release(early)
