"""Copies of the state that recurrent layers keep of a sequence, so that a prefix hit can go on from one of them.

Blocks hold keys and values of every position, but a recurrent state is that of its last position only: what the prefix
cache has of a prompt is of use up to a depth at which the state was saved ("Marconi", Pan et al. 2024, and the pool of
Metrale Engine 1.0.0-beta-preview). Slots are integers; whoever moves bytes is told by the caller.
"""

from __future__ import annotations

from collections.abc import Sequence as List
from dataclasses import dataclass
from heapq import heappop, heappush

from sortedcontainers import SortedDict, SortedList

# Evictions for which a session that was looked up keeps what it has.
LEASE_EVICTIONS = 64


@dataclass(slots=True, eq=False)
class Snapshot:
    """A state of `num_tokens` tokens in a slot.

    Attributes:
        key: the chained key of the last block inside; None while the running sequence `owner` alone knows of it.
        session: the one session that may use it, of which it is the tail or the sibling; "" = everybody may.
        rank: (staleness, score, slot); the lowest is evicted first.
    """

    slot: int
    num_tokens: int
    key: int | None
    session: str
    recency: int
    owner: int = -1
    rank: tuple[int, int, int] = (0, 0, 0)


class SnapshotPool:
    """A fixed number of slots, one entry for each chained key.

    A session has at most two entries of its own: its tail, and a sibling one block below. An entry without a session
    counts as a session by itself. The stalest session is evicted first, of its entries the one with the lowest recency
    + `depth_weight` * depth. Saves and evictions take O(log slots), a lookup at most one probe for each distinct depth.
    """

    def __init__(self, num_slots: int, block_size: int, min_tokens: int = 256, depth_weight: int = 0) -> None:
        self.num_slots = num_slots
        self.min_tokens = min_tokens
        self._block_size = block_size
        self._depth_weight = depth_weight
        self._free = list(range(num_slots))
        self._slots: list[Snapshot | None] = [None] * num_slots
        self._by_key: dict[int, Snapshot] = {}
        self._by_owner: dict[int, Snapshot] = {}
        self._by_session: dict[str, list[Snapshot]] = {}
        self._session_used: dict[str, int] = {}
        # How many entries with a key there are of each depth.
        self._depths = SortedDict()
        self._order = SortedList()
        self._clock = 0
        self._leased_session = ""
        self._lease_left = 0
        # Counts every change of what `lookup` may answer.
        self.version = 0
        self.num_saved = 0
        self.num_used = 0
        self.num_evicted = 0
        self.num_cut_hits = 0
        self.num_cut_blocks = 0

    @property
    def used_slots(self) -> int:
        return self.num_slots - len(self._free)

    def snapshots(self) -> tuple[Snapshot, ...]:
        """All of them, the next to be evicted first. For checks: O(slots)."""
        held = (self._slots[slot] for _, _, slot in self._order)
        return tuple(snapshot for snapshot in held if snapshot is not None)

    def held_by(self, owner: int) -> Snapshot | None:
        """What a running sequence holds for itself."""
        return self._by_owner.get(owner)

    def lookup(self, keys: List[int], matched_tokens: int, session: str) -> Snapshot | None:
        """The deepest snapshot of a prefix of `keys`, at most `matched_tokens` deep, that `session` may use."""
        deepest = min(matched_tokens, len(keys) * self._block_size)
        for depth in self._depths.irange(self.min_tokens, deepest, reverse=True):
            snapshot = self._by_key.get(keys[depth // self._block_size - 1])
            if snapshot is not None and snapshot.num_tokens == depth and _may_use(snapshot, session):
                return snapshot
        return None

    def use(self, snapshot: Snapshot, session: str) -> None:
        """A request of `session` goes on from `snapshot`: both are the most recent, and the session has the lease."""
        self.num_used += 1
        self._touch(snapshot, session)
        if session:
            self._leased_session, self._lease_left = session, LEASE_EVICTIONS

    def count_cut(self, blocks: int) -> None:
        """So many cached blocks of a prompt are computed again since no snapshot lies as deep as they."""
        self.num_cut_hits += blocks > 0
        self.num_cut_blocks += blocks

    def counts(self) -> dict[str, int]:
        """What has happened so far. `cut`: hits that lost cached tokens for want of a snapshot, and the tokens."""
        return {
            "slots": self.num_slots,
            "used_slots": self.used_slots,
            "saved": self.num_saved,
            "used": self.num_used,
            "evicted": self.num_evicted,
            "cut_hits": self.num_cut_hits,
            "cut_tokens": self.num_cut_blocks * self._block_size,
        }

    def refresh(self, key: int, session: str) -> bool:
        """Is there a snapshot of that key already that `session` may use? Then it is the most recent one now."""
        known = self._by_key.get(key)
        if known is None or not _may_use(known, session):
            return False
        self._touch(known, session)
        return True

    def save(self, key: int, num_tokens: int, session: str = "") -> int | None:
        """The slot for the state of `num_tokens` tokens; None if every slot is taken and none may be evicted.

        An entry with that key, and those of `session` that are neither its new tail nor one block below, give their
        slots back first.
        """
        if (known := self._by_key.get(key)) is not None:
            self._remove(known)
        self._displace(session, num_tokens)
        slot = self._take_slot()
        if slot is not None:
            self._add(Snapshot(slot, num_tokens, key, session, self._tick()))
        return slot

    def hold(self, owner: int, num_tokens: int) -> int | None:
        """The slot for a state that only the running sequence `owner` knows of yet; it replaces its former one."""
        self.drop(owner)
        slot = self._take_slot()
        if slot is not None:
            snapshot = self._by_owner[owner] = Snapshot(slot, num_tokens, None, "", self._tick(), owner)
            self._add(snapshot)
        return slot

    def settle(self, owner: int, key: int, session: str) -> None:
        """What `owner` holds, if anything, can be found under `key` from now on."""
        snapshot = self._by_owner.get(owner)
        if snapshot is None:
            return
        if self.refresh(key, session):
            self.drop(owner)
            return
        del self._by_owner[owner]
        if (known := self._by_key.get(key)) is not None:
            self._remove(known)
        self._displace(session, snapshot.num_tokens)
        self._order.remove(snapshot.rank)
        snapshot.key, snapshot.session, snapshot.recency = key, session, self._tick()
        self._enter(snapshot)

    def drop(self, owner: int) -> None:
        """What `owner` holds, if anything, is of no use."""
        if (snapshot := self._by_owner.get(owner)) is not None:
            self._remove(snapshot)

    def reset(self) -> None:
        """Forget all of them."""
        for snapshot in self.snapshots():
            self._remove(snapshot)

    def _displace(self, session: str, num_tokens: int) -> None:
        """A new tail removes the session's former entries but a sibling."""
        for former in list(self._by_session.get(session, ())):
            if former.num_tokens != num_tokens - self._block_size:
                self._remove(former)

    def _take_slot(self) -> int | None:
        if not self._free and not self._evict():
            return None
        return heappop(self._free)

    def _evict(self) -> bool:
        """Free the first slot in the order that the lease does not protect; at most two are passed over."""
        for _, _, slot in self._order:
            snapshot = self._slots[slot]
            assert snapshot is not None
            if self._lease_left and snapshot.session and snapshot.session == self._leased_session:
                continue
            self._remove(snapshot)
            self.num_evicted += 1
            self._lease_left -= self._lease_left > 0
            return True
        return False

    def _add(self, snapshot: Snapshot) -> None:
        self._slots[snapshot.slot] = snapshot
        self.num_saved += 1
        self._enter(snapshot)

    def _enter(self, snapshot: Snapshot) -> None:
        """Put a snapshot that has just got its key, session and recency into every index."""
        if snapshot.key is not None:
            self._by_key[snapshot.key] = snapshot
            self._depths[snapshot.num_tokens] = self._depths.get(snapshot.num_tokens, 0) + 1
            self.version += 1
        snapshot.rank = self._rank(snapshot)
        self._order.add(snapshot.rank)
        if snapshot.session:
            self._by_session.setdefault(snapshot.session, []).append(snapshot)
            self._use_session(snapshot.session, snapshot.recency)

    def _remove(self, snapshot: Snapshot) -> None:
        self._order.remove(snapshot.rank)
        self._slots[snapshot.slot] = None
        heappush(self._free, snapshot.slot)
        if snapshot.key is None:
            del self._by_owner[snapshot.owner]
            return
        del self._by_key[snapshot.key]
        self.version += 1
        self._depths[snapshot.num_tokens] -= 1
        if not self._depths[snapshot.num_tokens]:
            del self._depths[snapshot.num_tokens]
        if snapshot.session:
            entries = self._by_session[snapshot.session]
            entries.remove(snapshot)
            if not entries:
                del self._by_session[snapshot.session], self._session_used[snapshot.session]

    def _touch(self, snapshot: Snapshot, session: str) -> None:
        snapshot.recency = self._tick()
        self._reorder(snapshot)
        self._use_session(session, snapshot.recency)

    def _use_session(self, session: str, now: int) -> None:
        entries = self._by_session.get(session)
        if entries:
            self._session_used[session] = now
            for snapshot in entries:
                self._reorder(snapshot)

    def _reorder(self, snapshot: Snapshot) -> None:
        self._order.remove(snapshot.rank)
        snapshot.rank = self._rank(snapshot)
        self._order.add(snapshot.rank)

    def _rank(self, snapshot: Snapshot) -> tuple[int, int, int]:
        score = snapshot.recency + self._depth_weight * snapshot.num_tokens
        return self._session_used.get(snapshot.session, score), score, snapshot.slot

    def _tick(self) -> int:
        self._clock += 1
        return self._clock


def _may_use(snapshot: Snapshot, session: str) -> bool:
    return not snapshot.session or snapshot.session == session
