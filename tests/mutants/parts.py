"""Attacks on parts that runs reach seldom or never: refusals of the pools, keys, stop rules, queues."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from schedlab.batch import DecodeBatch
from schedlab.core import stops
from schedlab.errors import InvariantViolation, KvExhausted
from schedlab.inbox import Cancel, Delivery, Inbox
from schedlab.memory.blocks import BlockPool
from schedlab.memory.prefix import CachingBlockPool
from schedlab.memory.slots import SlotTable
from schedlab.memory.snapshots import LEASE_EVICTIONS, SnapshotPool
from schedlab.memory.swap import SwapSpace, Tier
from schedlab.memory.window import Window
from schedlab.request import Prompt, Request, SamplingParams
from schedlab.sequence import Sequence
from tests.mutants.attack import Attack

POOLS: tuple[type[BlockPool], ...] = (BlockPool, CachingBlockPool)


class Copy(NamedTuple):
    """A ticket."""

    number: int


def refused(error: type[Exception], act: Callable[[], Any]) -> None:
    """`act` raises that error."""
    try:
        act()
    except error:
        return
    raise AssertionError(f"no {error.__name__}")


def pools_refuse_and_change_nothing() -> None:
    """Allocations beyond what is free, releases and shares of what nobody holds."""
    for kind in POOLS:
        pool = kind(5)
        table = pool.allocate(3)
        refused(KvExhausted, partial(pool.allocate, 3))
        assert (pool.free_list(), pool.used_blocks) == ((4, 3), 3), "a refused allocation changes nothing"
        refused(InvariantViolation, partial(pool.release, [4]))
        refused(InvariantViolation, partial(pool.share, [4]))
        pool.release(table)
        assert pool.free_blocks == 5 and pool.allocate(5) == [0, 1, 2, 3, 4], "a table goes out again in its order"


def shared_blocks_stay_until_the_last_holder_goes() -> None:
    for kind in POOLS:
        pool = kind(4)
        table = pool.allocate(2)
        pool.share(table)
        assert pool.release(table) == 0 and pool.used_blocks == 2, "one of two holders frees nothing"
        assert pool.release(table) == 2 and pool.free_blocks == 4
        assert len({*pool.allocate(4)}) == 4


def a_block_waits_for_the_last_copy_that_reads_it() -> None:
    """Two copies read a block; the end of the first changes nothing, that of the second frees the writer."""
    for kind in POOLS:
        pool, first, second = kind(2), Copy(1), Copy(2)
        table = pool.allocate(2)
        pool.keep_open(table, first)
        pool.release_after(table, second)
        pool.close(first)
        assert pool.ready_blocks == 0, "blocks that a copy reads are not ready"
        assert pool.allocate(1) and pool.take_tickets() == (second,), "who takes the block waits for the copy"
        pool.close(second)
        assert pool.ready_blocks == 1 and pool.allocate(1) and pool.take_tickets() == (), "ended copies hold up nobody"


def blocks_under_a_copy_go_out_last() -> None:
    """One that nobody reads comes first, also if it has come back before those that are read."""
    for kind in POOLS:
        for order in (1, -1):
            pool, copy = kind(4), Copy(1)
            table, other = pool.allocate(2), pool.allocate(2)
            for release in (partial(pool.release, other), partial(pool.release_after, table, copy))[::order]:
                release()
            assert {*pool.allocate(2)} == {*other} and pool.take_tickets() == (), "what is ready goes out first"


def a_slot_waits_for_the_copy_that_reads_it() -> None:
    """Whoever gets the slot of one that was swapped out is told of the copy, unless that has ended."""
    for ended in (False, True):
        table, copy = SlotTable(1), Copy(1)
        first, second = (Sequence(Request(number, Prompt(4), 9), number, 9) for number in range(2))
        assert table.claim(first) is None
        table.release(first)
        table.keep_open(0, copy)
        if ended:
            table.close(copy)
        assert table.claim(second) == (None if ended else copy), "who gets the slot waits for the copy"


def a_lookup_is_a_leading_run() -> None:
    pool = CachingBlockPool(6)
    table = pool.allocate(3)
    pool.publish([7, 8, 9], table, 1, 3)
    assert pool.lookup([7, 8, 9], 3) == [], "nothing is found behind what is not known"
    pool.publish([7], table, 0, 1)
    assert pool.lookup([7, 8, 9], 2) == table[:2], "at most what was asked for"


def the_first_of_two_equal_blocks_stays() -> None:
    pool = CachingBlockPool(6)
    first, second = pool.allocate(2), pool.allocate(2)
    pool.publish([7, 8], first, 0, 2)
    assert pool.publish([7, 8], second, 0, 2) == 2 and second == first, "a late duplicate is replaced"
    assert pool.lookup([7, 8], 2) == first and pool.free_blocks == 4
    assert [pool.references(block) for block in first] == [2, 2]


def keys_tell_texts_apart() -> None:
    """Blocks of a trace's ids, finer and coarser than ours."""
    finer = [Prompt(32, ids, 16).block_keys(4) for ids in ((1, 2), (2, 3), (1, 3))]
    assert len({*finer[0], *finer[1]}) == 12, "the parts of block 2 are the same in both, no other is"
    assert finer[0][:4] == finer[2][:4] and not {*finer[0][4:]} & {*finer[2][4:]}
    coarser = [Prompt(32, ids, 4).block_keys(16) for ids in (range(8), (0, 1, 2, 9, 4, 5, 6, 7))]  # type: ignore[arg-type]
    assert [len(keys) for keys in coarser] == [2, 2] and coarser[0][0] != coarser[1][0], "the last id stands for all"


def names_of_spaces_tell_keys_apart() -> None:
    pool = CachingBlockPool(1)
    spaces = (("a", "", ""), ("", "a", ""), ("", "", "a"), ("", "", ""))
    assert len({key for space in spaces for key in pool.in_namespace([1, 2], space)}) == 8
    assert pool.in_namespace([1], spaces[0]) == pool.in_namespace([1], spaces[0])


def outputs_stop_by_their_rules() -> None:
    """B.20 and its edges: (min_tokens, ignore_eos, token, number of it, does it end). 1 is an EOS, 2 a stop id."""
    for least, ignoring, token, number, ends in (
        (3, False, 1, 2, False),
        (3, False, 1, 3, True),
        (3, False, 2, 2, False),
        (3, False, 2, 3, True),
        (0, True, 1, 1, False),
        (0, True, 2, 1, True),
        (0, False, 3, 1, False),
    ):
        params = SamplingParams((1,), (2,), min_tokens=least, ignore_eos=ignoring)
        found = stops.ends(Request(0, Prompt(1), 9, sampling=params), token, number)
        assert found is ends, f"token {token}, number {number}, min {least}, ignore_eos {ignoring}: {found}"


def room_is_exact() -> None:
    for tier in Tier:
        swap = SwapSpace(10, 10)
        swap.take(tier, 4)
        assert swap.has_room(tier, 6) and not swap.has_room(tier, 7), "what just fits fits, a byte more does not"
        swap.give_back(tier, 4)
        assert swap.used_bytes[tier] == 0


def a_lease_ends() -> None:
    """A session that was looked up is safe for so many evictions, then it goes as the stalest."""
    pool = SnapshotPool(2, 4, min_tokens=1)
    pool.save(1, 4, "s")
    kept = pool.lookup([1], 4, "s")
    assert kept is not None
    pool.use(kept, "s")
    for key in range(2, 2 + LEASE_EVICTIONS + 1):
        assert pool.save(key, 4, f"other {key}") is not None
    assert pool.lookup([1], 4, "s") is not None, "the lease protects"
    pool.save(9999, 4, "one more")
    assert pool.lookup([1], 4, "s") is None, "the lease has ended"


def the_batch_knows_who_has_waited_longest() -> None:
    batch = DecodeBatch(4)
    batch.step, batch.last_step_ns = 5, 50
    rows = [Sequence(Request(number, Prompt(4), 9), number, 9) for number in range(2)]
    for number, row in enumerate(rows):
        row.num_computed, row.num_outputs = 4, 1
        batch.join(row, 60 + number)
    assert batch.oldest_token_ns() == 60, "the row that joined first has waited longest"
    batch.step, batch.last_step_ns = 6, 70
    assert batch.oldest_token_ns() == 70


def runs_are_as_long_as_blocks_allow() -> None:
    """The longest run that the free blocks pay for, against counting; far blocks come and go with their rows."""
    batch = DecodeBatch(4)
    for number, tokens in enumerate((3, 4, 4, 9, 14)):
        row = Sequence(Request(number, Prompt(tokens), 99), number, 99)
        row.num_computed, row.num_outputs, row.window = tokens, 1, Window(start=2)
        batch.join(row, 0)
    for most in (1, 5, 30):
        for blocks in range(12):
            counted = max(k for k in range(1, most + 1) if batch.growth_blocks(1, k - 1) <= blocks)
            assert batch.affordable(blocks, most) == counted, f"{blocks} blocks pay for {counted} iterations"
    by_hand = [sum((length + ahead) % 4 == 0 for length in (3, 4, 4, 9, 14)) for ahead in range(9)]
    assert [batch.growth_blocks(0, k) for k in range(10)] == [sum(by_hand[:k]) for k in range(10)]
    assert batch.far_blocks == 10
    for row in list(batch.rows):
        batch.leave(row)
    assert batch.far_blocks == batch.context_tokens == 0


def messages_come_in_their_own_order() -> None:
    """By time, then source, then number, whoever brought them first."""
    places = [(time_ns, source, number) for time_ns in (1, 2) for source in (-1, 0) for number in (3, 4)]
    for order in (places, places[::-1], places[3:] + places[:3]):
        inbox = Inbox()
        for place in order:
            inbox.deliver(Delivery(*place, Cancel(0)))
        assert [delivery[:3] for delivery in inbox.drain()] == places


ATTACKS = (
    messages_come_in_their_own_order,
    runs_are_as_long_as_blocks_allow,
    pools_refuse_and_change_nothing,
    shared_blocks_stay_until_the_last_holder_goes,
    a_block_waits_for_the_last_copy_that_reads_it,
    blocks_under_a_copy_go_out_last,
    a_slot_waits_for_the_copy_that_reads_it,
    a_lookup_is_a_leading_run,
    the_first_of_two_equal_blocks_stays,
    keys_tell_texts_apart,
    names_of_spaces_tell_keys_apart,
    outputs_stop_by_their_rules,
    room_is_exact,
    a_lease_ends,
    the_batch_knows_who_has_waited_longest,
)


def part_attacks() -> list[Attack]:
    """All of them."""
    return [Attack(f"part: {attack.__name__}", attack) for attack in ATTACKS]
