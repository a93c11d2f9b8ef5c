"""The table of slots against plain dictionaries: who gets which slot, who waits for whom, who is moved where."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedlab.errors import InvariantViolation
from schedlab.memory.laws import ONE_SLOT_EACH, RELEASED_SLOT_IS_OWN
from schedlab.memory.slots import SlotTable
from schedlab.sequence import NOT_YET, Sequence
from tests.unit.hand_device import HandTicket
from tests.unit.sequences import waiting

MOVES = ("claim", "claim", "claim", "release", "release", "keep open", "close", "compact")


class Slots:
    """A table and what it should say, each move made on both."""

    def __init__(self, num_slots: int) -> None:
        self.table, self.num_slots = SlotTable(num_slots), num_slots
        self.owners: dict[int, Sequence] = {}
        self.users: dict[int, HandTicket] = {}
        self.num_made = 0

    def new(self) -> Sequence:
        self.num_made += 1
        return waiting(self.num_made)

    def claim(self) -> None:
        free = [slot for slot in range(self.num_slots) if slot not in self.owners]
        sequence = self.new()
        if not free:
            with pytest.raises(InvariantViolation, match=f"all {self.num_slots} slots are owned") as refused:
                self.table.claim(sequence)
            assert (refused.value.law, refused.value.request_id) == (ONE_SLOT_EACH, sequence.request_id)
            assert sequence.slot == NOT_YET
            return
        slot = min(free, key=lambda one: (one in self.users, one))
        assert self.table.claim(sequence) is self.users.pop(slot, None)
        assert sequence.slot == slot
        self.owners[slot] = sequence
        with pytest.raises(InvariantViolation, match=f"has slot {slot} already") as refused:
            self.table.claim(sequence)
        assert (refused.value.law, refused.value.request_id) == (ONE_SLOT_EACH, sequence.request_id)

    def release(self, data: st.DataObject) -> None:
        if self.owners:
            slot = data.draw(st.sampled_from(sorted(self.owners)))
            sequence = self.owners.pop(slot)
            self.table.release(sequence)
            assert sequence.slot == NOT_YET
            with pytest.raises(InvariantViolation, match=f"does not own slot {NOT_YET}") as refused:
                self.table.release(sequence)
            assert (refused.value.law, refused.value.request_id) == (RELEASED_SLOT_IS_OWN, sequence.request_id)

    def keep_open(self, data: st.DataObject) -> None:
        """A copy goes on where an owner leaves."""
        if self.owners:
            slot = data.draw(st.sampled_from(sorted(self.owners)))
            self.users[slot] = HandTicket(self.num_made * 10)
            self.table.keep_open(slot, self.users[slot])
            self.table.release(self.owners.pop(slot))

    def close(self, data: st.DataObject) -> None:
        self.table.close(HandTicket(1))
        if self.users:
            slot = data.draw(st.sampled_from(sorted(self.users)))
            self.table.close(self.users.pop(slot))

    def compact_some(self, data: st.DataObject) -> None:
        rows = data.draw(st.permutations(sorted(self.owners)))
        survivors = [self.owners[slot] for slot in rows[: data.draw(st.sampled_from((1, 2, None, None)))]]
        self.compact(survivors, data.draw(st.sampled_from((len(survivors), len(survivors) + 1, self.num_slots // 2))))

    def compact(self, survivors: list[Sequence], count: int) -> None:
        moves = self.table.moves(survivors, count)
        for sequence in survivors:
            source = sequence.slot
            free = [slot for slot in range(count) if slot not in self.owners and slot not in self.users]
            if source < count or not free:
                continue
            assert next(iter(moves)) == (sequence, source, free[0])
            assert self.table.owner(source) is self.table.owner(free[0]) is sequence, "nobody gets either meanwhile"
            assert sequence.slot == free[0]
            self.owners[free[0]] = self.owners.pop(source)
        assert list(moves) == []
        self.check()

    def check(self) -> None:
        for slot in range(self.num_slots):
            assert self.table.owner(slot) is self.owners.get(slot)
            assert self.table.is_open(slot) is (slot in self.users)
        assert sorted(self.table.open_tickets()) == sorted(self.users.values())
        assert all(sequence.slot == slot for slot, sequence in self.owners.items())


@given(st.data())
@settings(max_examples=70, derandomize=True, deadline=None, database=None)
def test_slots_are_given_as_the_model_gives_them(data: st.DataObject) -> None:
    slots = Slots(data.draw(st.integers(0, 9)))
    for _ in range(data.draw(st.integers(0, slots.num_slots))):
        slots.claim()
    for move in data.draw(st.lists(st.sampled_from(MOVES), min_size=10, max_size=50)):
        if move == "claim":
            slots.claim()
        elif move == "release":
            slots.release(data)
        elif move == "keep open":
            slots.keep_open(data)
        elif move == "close":
            slots.close(data)
        else:
            slots.compact_some(data)
        slots.check()


@pytest.mark.parametrize("order", [1, -1])
def test_rows_are_brought_together_around_whatever_is_left_open(order: int) -> None:
    """Each of 6 slots is a row's, free, or used by a copy; and one owner more is no row."""
    for fates in product(("row", "free", "open"), repeat=6):
        slots = Slots(7)
        for _ in range(7):
            slots.claim()
        for slot, fate in enumerate(fates):
            if fate == "open":
                slots.users[slot] = HandTicket(slot)
                slots.table.keep_open(slot, slots.users[slot])
            if fate != "row":
                slots.table.release(slots.owners.pop(slot))
        rows = [slots.owners[slot] for slot in range(6) if slot in slots.owners]
        slots.compact(rows[::order], len(rows))
        slots.claim()


def test_a_slot_is_not_given_back_by_another_than_its_owner() -> None:
    table, (owner, other) = SlotTable(2), (waiting(1), waiting(2))
    table.claim(owner)
    other.slot = owner.slot
    with pytest.raises(InvariantViolation, match="does not own slot 0"):
        table.release(other)
