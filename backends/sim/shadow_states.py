"""What the shadow device knows of the states that sequences carry in their slots, and of their snapshots."""

from __future__ import annotations

from backends.sim.shadow_content import MASK
from backends.sim.shadow_witness import Witness
from schedlab.invariants.contents import OPEN_SLOT
from schedlab.sequence import NOT_YET

EMPTY = 0


class SlotStates:
    """A digest for each slot: the sum of what its sequence has written. Snapshots are such digests with their depth.

    Where sequences carry no state, a slot begins with the sum of the cached blocks, so slots are checked there too.
    """

    def __init__(self, *, carried: bool) -> None:
        self._carried = carried
        self.digests: dict[int, int] = {}
        # When the last copy that uses a slot ends, in quanta.
        self._busy_until: dict[int, int] = {}
        # Tokens behind a digest, where the slot's content did not come from an image.
        self._tokens: dict[int, int] = {}
        self._writers: dict[int, Witness] = {}
        self._snapshots: dict[int, tuple[int, int]] = {}
        self._restored: dict[int, tuple[int, int]] = {}

    def begin(self, slot: int, witness: Witness, sum_of_blocks: int) -> None:
        """A sequence has got a slot: empty, or with the snapshot that was just restored there."""
        digest, self._tokens[slot] = self._restored.pop(slot, (EMPTY, 0))
        self.digests[slot] = digest if self._carried else sum_of_blocks
        self._writers[slot] = witness

    def keep_busy(self, slot: int, end_quanta: int) -> None:
        """A copy uses the state in `slot` until then."""
        if self._carried and slot != NOT_YET:
            self._busy_until[slot] = max(end_quanta, self._busy_until.get(slot, 0))

    def may_write(self, slot: int, begin_quanta: int, who: str) -> None:
        """Law: nobody writes a slot under an open copy that he does not wait for."""
        if self._busy_until.get(slot, 0) > begin_quanta:
            raise OPEN_SLOT.broken(
                f"{who} writes slot {slot} from {begin_quanta} quanta on, and a copy that it does not name in `after` "
                f"uses it until {self._busy_until[slot]}",
            )

    def write(self, slot: int, value: int, end: int) -> None:
        """Its sequence has written `value` and has `end` tokens now."""
        self.digests[slot] = self.digests[slot] + value & MASK
        self._tokens[slot] = end

    def move(self, source: int, target: int) -> None:
        """A slot's content moves."""
        self.digests[target], self._writers[target] = self.digests.pop(source), self._writers.pop(source)
        self._tokens.pop(target, None)
        if source in self._tokens:
            self._tokens[target] = self._tokens.pop(source)

    def arrive(self, slot: int, digest: int, witness: Witness) -> None:
        """A copy has brought a state of as many tokens as its sequence has."""
        self.digests[slot] = digest
        self._tokens.pop(slot, None)
        self._writers[slot] = witness

    def save(self, slot: int, snapshot: int, num_tokens: int) -> None:
        """A snapshot of the first `num_tokens` tokens, which may be fewer than those that are in the slot by now."""
        later = self._writers[slot].value(num_tokens, self._tokens.get(slot, num_tokens))
        self._snapshots[snapshot] = (self.digests[slot] - later & MASK, num_tokens)

    def restore(self, snapshot: int, slot: int) -> None:
        """The snapshot's content is in the slot from now on; its sequence begins with it."""
        self._restored[slot] = self._snapshots[snapshot]
