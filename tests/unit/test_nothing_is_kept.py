"""What has come and gone leaves nothing behind: containers of the memory are as large after many as after few."""

from __future__ import annotations

import pickle
from typing import Any, NamedTuple

from schedlab.memory.blocks import BlockPool
from schedlab.memory.commitment import CommitmentLedger
from schedlab.memory.prefix import CachingBlockPool
from schedlab.memory.slots import SlotTable
from schedlab.memory.snapshots import SnapshotPool
from tests.unit.sequences import waiting

FEW, MANY = 300, 1200
# Counters may have a few digits more.
SLACK_BYTES = 40


class Copy(NamedTuple):
    """A ticket."""

    number: int


def size(of: Any) -> int:
    """Bytes of all that it holds."""
    return len(pickle.dumps(of))


def test_sessions_and_owners_of_snapshots() -> None:
    pool, sizes = SnapshotPool(3, 4, 1), []
    for number in range(MANY):
        pool.save(10_000 + number, 4 + number % 5 * 4, f"session {10_000 + number}")
        pool.hold(number, 4)
        pool.settle(number, 50_000 + number, f"session {50_000 + number}")
        pool.hold(number, 8)
        pool.drop(number)
        if number in (FEW, FEW + 2, MANY - 1):
            pool.reset()
            sizes.append(size(pool))
    assert max(sizes) - sizes[0] < SLACK_BYTES, sizes


def test_copies_and_tables_of_blocks() -> None:
    for pool in (BlockPool(8), CachingBlockPool(8)):
        sizes = []
        for number in range(MANY):
            table, copy = pool.allocate(4), Copy(number)
            if isinstance(pool, CachingBlockPool):
                pool.publish([10_000 + number, 20_000 + number], table, 0, 2)
            pool.keep_open(table[:2], Copy(-number))
            pool.release_after(table, copy)
            for ticket in (copy, Copy(-number)):
                pool.close(ticket)
            pool.take_tickets()
            if number in (FEW, MANY - 1):
                pool.reset()
                sizes.append(size(pool))
        assert sizes[1] - sizes[0] < SLACK_BYTES, sizes


def test_users_of_slots_and_holders_of_commitments() -> None:
    table, ledger, sizes = SlotTable(3), CommitmentLedger(4, 5), []
    for number in range(MANY):
        sequence, copy = waiting(number, 7, 30), Copy(number)
        table.claim(sequence)
        table.keep_open(sequence.slot, copy)
        table.release(sequence)
        table.close(copy)
        ledger.add(sequence)
        ledger.start_growing(sequence)
        ledger.advance(number % 40)
        ledger.remove(sequence)
        if number in (FEW, MANY - 1):
            ledger.advance(100)
            sizes.append(size((table, ledger)))
    assert ledger.blocks == 0
    assert sizes[1] - sizes[0] < SLACK_BYTES, sizes
