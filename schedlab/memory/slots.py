"""Slots: indices of whatever a device keeps for each resident sequence beside its blocks."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

from schedlab.device import Ticket
from schedlab.memory.laws import ONE_SLOT_EACH, RELEASED_SLOT_IS_OWN
from schedlab.sequence import NOT_YET, Sequence


class SlotTable:
    """Gives each resident sequence one slot, the lowest free one that no copy uses if there is any.

    Law: no slot has two owners at any time.
    """

    __slots__ = ("_free", "_num_used_ever", "_open", "_owners", "num_slots")

    def __init__(self, num_slots: int) -> None:
        self.num_slots = num_slots
        self._free: list[int] = []
        self._num_used_ever = 0
        self._owners: dict[int, Sequence] = {}
        # Slots whose state a copy still reads or writes, though their owner has left.
        self._open: dict[int, Ticket] = {}

    def owner(self, slot: int) -> Sequence | None:
        """Who owns `slot`."""
        return self._owners.get(slot)

    def open_tickets(self) -> tuple[Ticket, ...]:
        """Of the copies that still use slots whose owners have left. For checks."""
        return tuple(self._open.values())

    def is_open(self, slot: int) -> bool:
        """Does a copy still use `slot`, though its owner has left?"""
        return slot in self._open

    def keep_open(self, slot: int, ticket: Ticket) -> None:
        """A copy goes on with the state in `slot` after its owner has left."""
        self._open[slot] = ticket

    def close(self, ticket: Ticket) -> None:
        """The copy has ended; one that uses no slot is none of its business. O(slots that copies use)."""
        self._open = {slot: user for slot, user in self._open.items() if user is not ticket}

    def claim(self, sequence: Sequence) -> Ticket | None:
        """Give a sequence without a slot a free one. Who writes there must wait for the copy that is returned, if any.

        Raises:
            InvariantViolation: it has one, or all are owned; seats are never more than slots.
        """
        if sequence.slot != NOT_YET:
            raise ONE_SLOT_EACH.broken(f"{sequence} has slot {sequence.slot} already", sequence.request_id)
        slot: int | None = None
        if self._free:
            slot = heappop(self._free) if not self._open else self._take_closed(self.num_slots)
        if slot is None and self._num_used_ever < self.num_slots:
            slot = self._num_used_ever
            self._num_used_ever += 1
        elif slot is None and self._free:
            slot = heappop(self._free)
        if slot is None:
            raise ONE_SLOT_EACH.broken(f"all {self.num_slots} slots are owned", sequence.request_id)
        self._owners[slot] = sequence
        sequence.slot = slot
        return self._open.pop(slot, None) if self._open else None

    def release(self, sequence: Sequence) -> None:
        """Take a sequence's slot away.

        Raises:
            InvariantViolation: the slot is not its own.
        """
        if self._owners.pop(sequence.slot, None) is not sequence:
            raise RELEASED_SLOT_IS_OWN.broken(f"{sequence} does not own slot {sequence.slot}", sequence.request_id)
        heappush(self._free, sequence.slot)
        sequence.slot = NOT_YET

    def moves(self, survivors: Iterable[Sequence], count: int) -> Iterable[tuple[Sequence, int, int]]:
        """Move survivors whose slot is `count` or more into free slots below, each as (sequence, from, to).

        The target belongs to the sequence before the caller copies anything, and the source only after it has: nobody
        else can get either meanwhile. Slots that anyone owns, prefilling ones too, or that a copy uses are no targets;
        so the result may stay less than dense.
        """
        for sequence in survivors:
            target = self._take_closed(count) if sequence.slot >= count else None
            if target is None:
                continue
            source, sequence.slot = sequence.slot, target
            self._owners[target] = sequence
            yield sequence, source, target
            del self._owners[source]
            heappush(self._free, source)

    def _take_closed(self, limit: int) -> int | None:
        """The lowest free slot below `limit` that no copy uses."""
        free = self._free
        passed = []
        while free and free[0] in self._open:
            passed.append(heappop(free))
        slot = heappop(free) if free and free[0] < limit else None
        for one in passed:
            heappush(free, one)
        return slot
