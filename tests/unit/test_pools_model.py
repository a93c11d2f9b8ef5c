"""Both block pools against a model that keeps plain lists: what goes out, in which order, and who waits for whom."""

from __future__ import annotations

from copy import deepcopy
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedlab.errors import InvariantViolation, KvExhausted
from schedlab.memory.blocks import BlockPool, blocks_for
from schedlab.memory.prefix import CachingBlockPool

MOST_BLOCKS = 9


class Copy(NamedTuple):
    """A ticket."""

    number: int


class Model:
    """`stack` = empty blocks, the next to go out last and what copies read first.

    `idle` = cached ones without a holder, the next to go first.
    """

    def __init__(self, total: int) -> None:
        self.stack, self.idle = list(range(total))[::-1], list[int]()
        self.holders, self.keys = [0] * total, list[int | None]([None] * total)
        self.readers: dict[int, Copy] = {}
        self.owed: list[Copy] = []
        self.evicted = 0

    def free(self) -> int:
        return len(self.stack) + len(self.idle)

    def find(self, key: int) -> int | None:
        return self.keys.index(key) if key in self.keys else None

    def evict(self, count: int) -> None:
        oldest, self.idle = self.idle[:count], self.idle[count:]
        for block in oldest:
            self.keys[block] = None
        (read, above), (read_too, others) = self.split(self.stack), self.split(oldest[::-1])
        self.stack = read_too + read + others + above
        self.evicted += len(oldest)

    def allocate(self, count: int) -> list[int]:
        self.evict(max(0, count - len(self.stack)))
        taken = [self.stack.pop() for _ in range(count)]
        for block in taken:
            self.holders[block] = 1
            if block in self.readers:
                reader = self.readers[block]
                self.owed = [ticket for ticket in self.owed if ticket is not reader] + [reader]
        return taken

    def release(self, table: list[int]) -> int:
        empty, before = [], self.free()
        for block in reversed(table):
            self.holders[block] -= 1
            if not self.holders[block]:
                (empty if self.keys[block] is None else self.idle).append(block)
        read, others = self.split(empty)
        self.stack = read + self.stack + others
        return self.free() - before

    def hold(self, blocks: list[int]) -> None:
        for block in blocks:
            self.idle = [one for one in self.idle if one != block]
            self.holders[block] += 1

    def publish(self, keys: list[int], table: list[int], first: int, last: int) -> int:
        replaced = 0
        for index in range(first, last):
            found = self.find(keys[index])
            if found is None:
                self.keys[table[index]] = keys[index]
            elif found != table[index]:
                self.hold([found])
                self.release([table[index]])
                table[index] = found
                replaced += 1
        return replaced

    def reset(self) -> bool:
        if any(self.holders):
            return False
        self.evict(len(self.idle))
        return True

    def split(self, blocks: list[int]) -> tuple[list[int], list[int]]:
        """Those that a copy reads, and the others."""
        return [one for one in blocks if one in self.readers], [one for one in blocks if one not in self.readers]

    def close(self, copy: Copy) -> None:
        self.readers = {block: one for block, one in self.readers.items() if one is not copy}
        read, others = self.split(self.stack)
        self.stack = read + others

    def ready(self) -> int:
        return sum(block not in self.readers for block in self.stack) if self.readers else self.free()


class Pair:
    """A pool, its model, and the tables of those who hold blocks; each move is made on both."""

    def __init__(self, pool: BlockPool) -> None:
        self.pool, self.model = pool, Model(pool.total_blocks)
        self.tables: list[list[int]] = []
        self.copies: dict[Copy, list[int]] = {}
        self.num_copies = 0

    def allocate(self, data: st.DataObject) -> None:
        count = data.draw(st.integers(0, 4))
        if count > self.model.free():
            before = seen(self.pool)
            with pytest.raises(KvExhausted, match=f"^{count} KV blocks needed, {self.model.free()} free$") as refused:
                self.pool.allocate(count)
            assert (refused.value.needed_blocks, refused.value.free_blocks) == (count, self.model.free())
            assert seen(self.pool) == before
            return
        table = self.model.allocate(count)
        assert self.pool.allocate(count) == table
        self._keep(table)

    def take_tickets(self, _: st.DataObject) -> None:
        found, self.model.owed, owed = self.pool.take_tickets(), [], self.model.owed
        assert sorted(found) == sorted(owed) and len(set(found)) == len(found)

    def share(self, data: st.DataObject) -> None:
        if self.tables:
            table = data.draw(st.sampled_from(self.tables))
            shared = [block for block in table if data.draw(st.booleans())]
            self.pool.share(iter(shared))
            self.model.hold(shared)
            self._keep(shared)

    def release(self, data: st.DataObject) -> None:
        if self.tables:
            table = self.tables.pop(data.draw(st.integers(0, len(self.tables) - 1)))
            assert self.pool.release(list(table)) == self.model.release(table)

    def release_after(self, data: st.DataObject) -> None:
        if self.tables:
            table, copy = self.tables.pop(data.draw(st.integers(0, len(self.tables) - 1))), self._copy()
            self.copies[copy] = list(table)
            self.model.readers |= dict.fromkeys(table, copy)
            assert self.pool.release_after(list(table), copy) == self.model.release(table)

    def keep_open(self, data: st.DataObject) -> None:
        """A copy reads some blocks of a table that stays where it is."""
        if self.tables:
            read, copy = data.draw(st.sampled_from(self.tables))[1:], self._copy()
            self.copies[copy] = list(read)
            self.model.readers |= dict.fromkeys(read, copy)
            self.pool.keep_open(read, copy)

    def close(self, data: st.DataObject) -> None:
        self.pool.close(Copy(-1))
        if self.copies:
            copy = data.draw(st.sampled_from(sorted(self.copies)))
            del self.copies[copy]
            self.model.close(copy)
            self.pool.close(copy)

    def misuse(self, data: st.DataObject) -> None:
        free = [block for block, holders in enumerate(self.model.holders) if not holders]
        if free:
            block, before = data.draw(st.sampled_from(free)), seen(self.pool)
            with pytest.raises(InvariantViolation, match=f"block {block} is free and cannot be shared"):
                self.pool.share([block])
            with pytest.raises(InvariantViolation, match=f"block {block} is released but nobody holds it"):
                self.pool.release([block])
            assert seen(self.pool) == before

    def reset(self, data: st.DataObject) -> None:
        """Often when everybody has just gone."""
        while self.tables and data.draw(st.integers(0, 2)):
            self.release(data)
        assert self.pool.reset() is self.model.reset()

    def publish(self, data: st.DataObject) -> None:
        if isinstance(self.pool, CachingBlockPool) and self.tables:
            table = data.draw(st.sampled_from(self.tables))
            keys = self._keys_for(data, table)
            first = data.draw(st.integers(0, max(0, len(table) - 2)))
            last = data.draw(st.integers(first, len(table) + 4))
            last = min(last, len(table))
            mine = list(table)
            assert self.pool.publish(keys, mine, first, last) == self.model.publish(keys, table, first, last)
            assert mine == table

    def hold(self, data: st.DataObject) -> None:
        """Somebody comes in behind what the cache has."""
        if isinstance(self.pool, CachingBlockPool):
            known = sorted(key for key in self.model.keys if key is not None)
            keys = data.draw(st.permutations([*known, MOST_BLOCKS]))
            found = self.lookup(data, keys)
            self.pool.hold(found)
            self.model.hold(found)
            self._keep(found)

    def lookup(self, data: st.DataObject, keys: list[int]) -> list[int]:
        assert isinstance(self.pool, CachingBlockPool)
        most, found = data.draw(st.integers(0, len(keys) + 1)), list[int]()
        for key in keys[:most]:
            block = self.model.find(key)
            if block is None:
                break
            found.append(block)
        assert self.pool.lookup(keys, most) == found
        return found

    def hide(self, data: st.DataObject) -> None:
        if isinstance(self.pool, CachingBlockPool) and self.tables:
            table = data.draw(st.sampled_from(self.tables))
            self.pool.hide(table)
            for block in table:
                if self.model.holders[block] == 1:
                    self.model.keys[block] = None

    def _keys_for(self, data: st.DataObject, table: list[int]) -> list[int]:
        """A block with a key keeps it; no two of a table are alike."""
        own = [self.model.keys[block] for block in table]
        others = data.draw(st.permutations([key for key in range(MOST_BLOCKS) if key not in own]))
        if data.draw(st.integers(0, 3)):
            others = sorted(others, key=lambda key: self.model.find(key) is None)
        rest = iter(others)
        return [next(rest) if key is None else key for key in own]

    def _keep(self, table: list[int]) -> None:
        if table:
            self.tables.append(table)

    def _copy(self) -> Copy:
        self.num_copies += 1
        return Copy(self.num_copies)

    def check(self) -> None:
        pool, model = self.pool, self.model
        blocks = range(pool.total_blocks)
        assert pool.reference_counts() == tuple(model.holders) == tuple(pool.references(block) for block in blocks)
        assert [pool.is_held(block) for block in blocks] == [holders > 0 for holders in model.holders]
        assert pool.free_list() == tuple(model.stack)
        assert pool.free_blocks == model.free()
        assert pool.used_blocks == pool.total_blocks - model.free() == sum(holders > 0 for holders in model.holders)
        assert pool.cached_blocks == sum(key is not None for key in model.keys)
        assert pool.num_evicted == model.evicted
        assert sorted(pool.open_tickets()) == sorted(model.readers.values())
        assert pool.ready_blocks == model.ready()
        if isinstance(pool, CachingBlockPool):
            assert pool.idle_list() == tuple(model.idle)
            assert pool.keys() == tuple(model.keys) == tuple(map(pool.key_of, blocks))


MOVES = (
    Pair.allocate,
    Pair.allocate,
    Pair.publish,
    Pair.publish,
    Pair.release,
    Pair.release,
    Pair.release_after,
    Pair.share,
    Pair.keep_open,
    Pair.close,
    Pair.hold,
    Pair.hide,
    Pair.reset,
    Pair.take_tickets,
    Pair.misuse,
)


def seen(pool: BlockPool) -> tuple[object, ...]:
    """All that a caller can ask for."""
    cache: tuple[object, ...] = ()
    if isinstance(pool, CachingBlockPool):
        cache = pool.idle_list(), pool.keys(), pool.version
    counts = pool.free_blocks, pool.used_blocks, pool.ready_blocks, pool.num_evicted, pool.cached_blocks
    return pool.free_list(), pool.reference_counts(), pool.open_tickets(), counts, cache


def findable(pool: BlockPool) -> dict[int, int]:
    """What decides any lookup."""
    if not isinstance(pool, CachingBlockPool):
        return {}
    return {key: block for block, key in enumerate(pool.keys()) if key is not None}


def check_ready(pool: BlockPool) -> None:
    """So many blocks, one by one or at once, go out without anybody to wait for."""
    for portions in ([1] * pool.ready_blocks, [pool.ready_blocks]):
        twin = deepcopy(pool)
        twin.take_tickets()
        for count in portions:
            twin.allocate(count)
        assert twin.take_tickets() == ()


@pytest.mark.parametrize("kind", [BlockPool, CachingBlockPool])
@given(data=st.data())
@settings(max_examples=80, derandomize=True, deadline=None, database=None)
def test_a_pool_does_what_its_model_does(kind: type[BlockPool], data: st.DataObject) -> None:
    pair = Pair(kind(data.draw(st.sampled_from((0, 3, *range(5, MOST_BLOCKS + 1))))))
    pair.check()
    found_at: dict[int, dict[int, int]] = {}
    for move in data.draw(st.lists(st.sampled_from(MOVES), min_size=20, max_size=60)):
        move(pair, data)
        pair.check()
        check_ready(pair.pool)
        found = findable(pair.pool)
        assert found_at.setdefault(getattr(pair.pool, "version", 0), found) == found, "who has looked up looks again"


def test_all_late_duplicates_of_a_table_are_replaced_and_free_in_its_order() -> None:
    """Of 4 keys the second of two tables publishes some that the first has published, and some that it has not."""
    keys = [11, 12, 13, 14]
    for known in range(5):
        for first in range(5):
            for last in range(first, 5):
                pair = Pair(CachingBlockPool(10))
                assert isinstance(pair.pool, CachingBlockPool)
                early, late = (pair.model.allocate(4) for _ in range(2))
                assert (pair.pool.allocate(4), pair.pool.allocate(4)) == (early, late)
                pair.pool.publish(keys, early, 0, known)
                pair.model.publish(keys, early, 0, known)
                mine = list(late)
                assert pair.pool.publish(keys, mine, first, last) == pair.model.publish(keys, late, first, last)
                assert mine == late
                pair.check()


@pytest.mark.parametrize("block_size", [1, 3, 16])
def test_tokens_take_the_fewest_blocks_that_hold_them(block_size: int) -> None:
    for tokens in range(50):
        assert blocks_for(tokens, block_size) == min(blocks for blocks in range(51) if blocks * block_size >= tokens)


NAMES = st.tuples(*[st.sampled_from(("", "a", "b"))] * 3)


# A 128-bit hash times the parts of a block.
@given(spaces=st.lists(NAMES, min_size=1, max_size=8), keys=st.lists(st.integers(0, 1 << 170), max_size=3))
@settings(max_examples=60, derandomize=True, deadline=None, database=None)
def test_keys_are_equal_where_namespaces_are_and_as_they_were_without_one(
    spaces: list[tuple[str, ...]], keys: list[int]
) -> None:
    pool, seen_in = CachingBlockPool(0), dict[tuple[str, ...], list[int]]()
    for space in spaces:
        found = pool.in_namespace(list(keys), space)
        assert seen_in.setdefault(space, found) == found
        assert not keys or any(space) is (found != keys)
        assert [found.index(one) for one in found] == [keys.index(one) for one in keys]
    for one, mine in seen_in.items():
        for other, theirs in seen_in.items():
            assert one == other or not {*mine} & {*theirs}
