"""BlockPool against a model of it: who holds what, in which order blocks go out, and that a refusal changes nothing."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from schedlab.errors import InvariantViolation, KvExhausted
from schedlab.memory.blocks import BlockPool, blocks_for
from schedlab.memory.prefix import CachingBlockPool


class PoolMachine(RuleBasedStateMachine):
    """Tables take, share and give back blocks; `stack` is the free list as the documentation describes it."""

    @initialize(total=st.integers(0, 12))
    def start(self, total: int) -> None:
        self.pool = BlockPool(total)
        self.total = total
        self.tables: list[list[int]] = []
        self.stack = list(range(total))[::-1]

    @rule(count=st.integers(0, 14))
    def allocate(self, count: int) -> None:
        if count > len(self.stack):
            with pytest.raises(KvExhausted) as error:
                self.pool.allocate(count)
            assert (error.value.needed_blocks, error.value.free_blocks) == (count, len(self.stack))
            return
        expected = [self.stack.pop() for _ in range(count)]
        assert self.pool.allocate(count) == expected
        self.tables.append(expected)

    @rule(data=st.data())
    def share(self, data: st.DataObject) -> None:
        if self.tables:
            table = data.draw(st.sampled_from(self.tables))
            shared = table[: data.draw(st.integers(0, len(table)))]
            self.pool.share(shared)
            self.tables.append(list(shared))

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        if self.tables:
            table = self.tables.pop(data.draw(st.integers(0, len(self.tables) - 1)))
            freed = [block for block in reversed(table) if not any(block in other for other in self.tables)]
            assert self.pool.release(table) == len(freed)
            self.stack += freed

    @rule(data=st.data())
    def misuse_of_a_free_block(self, data: st.DataObject) -> None:
        if self.stack:
            block = data.draw(st.sampled_from(self.stack))
            for misuse in (self.pool.share, self.pool.release):
                with pytest.raises(InvariantViolation):
                    misuse([block])

    @invariant()
    def counts_are_holders(self) -> None:
        if not hasattr(self, "pool"):
            return
        for block in range(self.total):
            assert self.pool.references(block) == sum(block in table for table in self.tables)
        assert self.pool.free_list() == tuple(self.stack)
        assert self.pool.free_blocks + self.pool.used_blocks == self.pool.total_blocks == self.total


TestPool = PoolMachine.TestCase
TestPool.settings = settings(max_examples=60, derandomize=True, deadline=None, database=None)


def test_first_blocks_go_out_in_order_and_a_table_comes_back_in_its_own() -> None:
    pool = BlockPool(6)
    first, second = pool.allocate(2), pool.allocate(3)
    assert (first, second) == ([0, 1], [2, 3, 4])
    pool.release(first)
    assert pool.allocate(3) == [0, 1, 5]


@pytest.mark.parametrize(("tokens", "blocks"), [(0, 0), (1, 1), (15, 1), (16, 1), (17, 2), (160, 10)])
def test_blocks_for(tokens: int, blocks: int) -> None:
    assert blocks_for(tokens, 16) == blocks


class Copy(NamedTuple):
    """A ticket."""

    number: int


def test_ready_blocks_go_out_before_all_that_copies_read_whichever_copy_ends_first() -> None:
    pool, first, second = BlockPool(6), Copy(1), Copy(2)
    early, late = pool.allocate(2), pool.allocate(2)
    pool.release_after(early, first)
    pool.release_after(late, second)
    pool.close(second)
    assert pool.ready_blocks == 4
    assert not {*pool.allocate(4)} & {*early} and pool.take_tickets() == ()
    assert pool.allocate(2) == early and pool.take_tickets() == (first,)


def test_blocks_emptied_by_a_reset_go_out_before_those_that_a_copy_reads() -> None:
    pool, copy = CachingBlockPool(5), Copy(1)
    read, cached = pool.allocate(2), pool.allocate(2)
    pool.publish([7, 8], cached, 0, 2)
    pool.release_after(read, copy)
    pool.release(cached)
    assert pool.reset() and pool.ready_blocks == 3
    assert not {*pool.allocate(3)} & {*read} and pool.take_tickets() == ()
