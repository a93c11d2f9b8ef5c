"""Slots: indices of whatever a device keeps for each resident sequence beside its blocks."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

from schedlab.errors import InvariantViolation
from schedlab.sequence import NOT_YET, Sequence


class SlotTable:
    """Gives each resident sequence one slot, the lowest free one. Law: no slot has two owners at any time."""

    __slots__ = ("_free", "_num_used_ever", "_owners", "num_slots")

    def __init__(self, num_slots: int) -> None:
        self.num_slots = num_slots
        self._free: list[int] = []
        self._num_used_ever = 0
        self._owners: dict[int, Sequence] = {}

    def owner(self, slot: int) -> Sequence | None:
        """Who owns `slot`."""
        return self._owners.get(slot)

    def claim(self, sequence: Sequence) -> None:
        """Give a sequence without a slot the lowest free one.

        Raises:
            InvariantViolation: it has one, or all are owned; seats are never more than slots.
        """
        if sequence.slot != NOT_YET:
            raise InvariantViolation(f"{sequence} has slot {sequence.slot} already")
        if self._free:
            slot = heappop(self._free)
        elif self._num_used_ever < self.num_slots:
            slot = self._num_used_ever
            self._num_used_ever += 1
        else:
            raise InvariantViolation(f"all {self.num_slots} slots are owned")
        self._owners[slot] = sequence
        sequence.slot = slot

    def release(self, sequence: Sequence) -> None:
        """Take a sequence's slot away.

        Raises:
            InvariantViolation: the slot is not its own.
        """
        if self._owners.pop(sequence.slot, None) is not sequence:
            raise InvariantViolation(f"{sequence} does not own slot {sequence.slot}")
        heappush(self._free, sequence.slot)
        sequence.slot = NOT_YET

    def moves(self, survivors: Iterable[Sequence], count: int) -> Iterable[tuple[Sequence, int, int]]:
        """Move survivors whose slot is `count` or more into free slots below, each as (sequence, from, to).

        The target belongs to the sequence before the caller copies anything, and the source only after it has: nobody
        else can get either meanwhile. Slots that anyone owns, prefilling ones too, are no targets; so the result may
        stay less than dense.
        """
        for sequence in survivors:
            if sequence.slot < count or not self._free or self._free[0] >= count:
                continue
            source, target = sequence.slot, heappop(self._free)
            self._owners[target] = sequence
            sequence.slot = target
            yield sequence, source, target
            del self._owners[source]
            heappush(self._free, source)
