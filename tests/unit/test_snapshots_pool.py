"""The pool of snapshots against a model that keeps a plain list and looks through all of it every time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedlab.memory import snapshots
from schedlab.memory.snapshots import SnapshotPool

BLOCK = 4
MIN_TOKENS = 8
SESSIONS = ("", "a", "b", "c")
# Branches of one tree: the key of a prefix of branch b with d blocks, shared with branch 0 in its first two.
BRANCHES = 3


def keys_of(branch: int, blocks: int) -> list[int]:
    return [(branch if block >= 2 else 0) * 100 + block for block in range(blocks)]


@dataclass
class Entry:
    slot: int
    depth: int
    key: int | None
    session: str
    recency: int
    owner: int


class Model:
    """What the pool should do, said as directly as possible."""

    def __init__(self, num_slots: int, weight: int, lease: int) -> None:
        self.free = list(range(num_slots))
        self.entries: list[Entry] = []
        self.used: dict[str, int] = {}
        self.weight, self.clock, self.evicted = weight, 0, 0
        self.leased, self.lease_left, self.lease = "", 0, lease
        self.saved, self.num_used, self.cuts = 0, 0, list[int]()

    def tick(self) -> int:
        self.clock += 1
        return self.clock

    def score(self, entry: Entry) -> int:
        return entry.recency + self.weight * entry.depth

    def rank(self, entry: Entry) -> tuple[int, int, int]:
        staleness = self.used[entry.session] if entry.session else self.score(entry)
        return staleness, self.score(entry), entry.slot

    def remove(self, entry: Entry) -> None:
        self.entries.remove(entry)
        self.free.append(entry.slot)

    def take_slot(self) -> int | None:
        if not self.free:
            for entry in sorted(self.entries, key=self.rank):
                if not (self.lease_left and entry.session and entry.session == self.leased):
                    self.remove(entry)
                    self.evicted += 1
                    self.lease_left = max(0, self.lease_left - 1)
                    break
        if not self.free:
            return None
        self.free.sort()
        return self.free.pop(0)

    def make_way(self, key: int, session: str, depth: int) -> None:
        for entry in list(self.entries):
            is_former = session and entry.session == session and entry.depth != depth - BLOCK
            if entry.key == key or is_former:
                self.remove(entry)

    def save(self, key: int, depth: int, session: str) -> int | None:
        self.make_way(key, session, depth)
        slot = self.take_slot()
        if slot is not None:
            self.entries.append(Entry(slot, depth, key, session, self.tick(), -1))
            self.used[session] = self.clock
            self.saved += 1
        return slot

    def hold(self, owner: int, depth: int) -> int | None:
        self.drop(owner)
        slot = self.take_slot()
        if slot is not None:
            self.entries.append(Entry(slot, depth, None, "", self.tick(), owner))
            self.saved += 1
        return slot

    def settle(self, owner: int, key: int, session: str) -> None:
        held = [entry for entry in self.entries if entry.owner == owner]
        if not held:
            return
        if self.refresh(key, session):
            self.drop(owner)
            return
        self.make_way(key, session, held[0].depth)
        held[0].key, held[0].session, held[0].recency, held[0].owner = key, session, self.tick(), -1
        self.used[session] = self.clock

    def drop(self, owner: int) -> None:
        for entry in [entry for entry in self.entries if entry.owner == owner]:
            self.remove(entry)

    def refresh(self, key: int, session: str) -> bool:
        for entry in self.entries:
            if entry.key == key and entry.session in ("", session):
                entry.recency = self.used[session] = self.tick()
                return True
        return False

    def lookup(self, keys: list[int], matched: int, session: str) -> Entry | None:
        usable = [
            entry
            for entry in self.entries
            if entry.key is not None
            and MIN_TOKENS <= entry.depth <= min(matched, len(keys) * BLOCK)
            and keys[entry.depth // BLOCK - 1] == entry.key
            and entry.session in ("", session)
        ]
        return max(usable, key=lambda entry: entry.depth, default=None)

    def use(self, entry: Entry, session: str) -> None:
        entry.recency = self.used[session] = self.tick()
        self.num_used += 1
        if session:
            self.leased, self.lease_left = session, self.lease

    def counts(self) -> dict[str, int]:
        return {
            "slots": len(self.free) + len(self.entries),
            "used_slots": len(self.entries),
            "saved": self.saved,
            "used": self.num_used,
            "evicted": self.evicted,
            "cut_hits": sum(blocks > 0 for blocks in self.cuts),
            "cut_tokens": sum(self.cuts) * BLOCK,
        }


class Probed(list[int]):
    """Keys that count how many of them are looked at."""

    num_probes = 0

    def __getitem__(self, index: Any) -> Any:
        self.num_probes += 1
        return super().__getitem__(index)


branches, depths = st.integers(0, BRANCHES - 1), st.integers(1, 7)
operations = st.one_of(
    st.tuples(st.just("save"), branches, depths, st.sampled_from(SESSIONS)),
    st.tuples(st.just("look"), branches, depths, st.sampled_from(SESSIONS)),
    st.tuples(st.just("refresh"), branches, depths, st.sampled_from(SESSIONS)),
    st.tuples(st.just("hold"), st.integers(0, 3), depths, st.just("")),
    st.tuples(st.just("settle"), st.integers(0, 3), branches, st.sampled_from(SESSIONS)),
    st.tuples(st.just("drop"), st.integers(0, 3), depths, st.just("")),
    st.tuples(st.just("cut"), st.integers(0, 3), depths, st.just("")),
)
resets = st.tuples(st.just("reset"), branches, depths, st.just(""))
# Seldom, or there is never much to choose from.
rare_operations = st.integers(0, 40).flatmap(lambda chance: resets if chance == 40 else operations)


def apply(pool: SnapshotPool, model: Model, name: str, first: int, second: int, session: str) -> None:
    if name == "save":
        key = keys_of(first, second)[-1]
        assert pool.save(key, second * BLOCK, session) == model.save(key, second * BLOCK, session)
    elif name == "look":
        keys, version = keys_of(first, second), pool.version
        probed = Probed(keys)
        found, expected = pool.lookup(probed, second * BLOCK, session), model.lookup(keys, second * BLOCK, session)
        assert (found and found.slot) == (expected and expected.slot)
        assert pool.version == version
        assert probed.num_probes <= len({one.num_tokens for one in pool.snapshots() if one.key is not None})
        if found and expected:
            pool.use(found, session)
            model.use(expected, session)
    elif name == "refresh":
        key = keys_of(first, second)[-1]
        assert pool.refresh(key, session) == model.refresh(key, session)
    elif name == "hold":
        assert pool.hold(first, second * BLOCK) == model.hold(first, second * BLOCK)
    elif name == "settle":
        held = pool.held_by(first)
        blocks = held.num_tokens // BLOCK if held else 1
        pool.settle(first, keys_of(second, blocks)[-1], session)
        model.settle(first, keys_of(second, blocks)[-1], session)
    elif name == "cut":
        pool.count_cut(first)
        model.cuts.append(first)
    elif name == "reset":
        pool.reset()
        for entry in list(model.entries):
            model.remove(entry)
    else:
        pool.drop(first)
        model.drop(first)


def check_laws(pool: SnapshotPool) -> None:
    """Of any state: slots are distinct, each key is there once, a session has a tail and at most a sibling below it."""
    snapshots = pool.snapshots()
    assert len({one.slot for one in snapshots}) == len(snapshots) == pool.used_slots <= pool.num_slots
    keys = [one.key for one in snapshots if one.key is not None]
    assert len(set(keys)) == len(keys)
    for session in SESSIONS[1:]:
        depths = sorted(one.num_tokens for one in snapshots if one.session == session)
        assert len(depths) < 2 or (len(depths) == 2 and depths[1] - depths[0] == BLOCK)


# Long ones too: lists that are drawn without a least size are mostly short, and who goes first shows late.
many_operations = st.lists(rare_operations, max_size=9) | st.lists(rare_operations, min_size=40, max_size=120)


@given(st.integers(0, 8), st.sampled_from((0, 0, 1, 8)), st.sampled_from((1, 3, 64)), many_operations)
@settings(max_examples=200, deadline=None)
def test_pool_does_what_the_model_does(
    num_slots: int, weight: int, lease: int, steps: list[tuple[str, int, int, str]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshots, "LEASE_EVICTIONS", lease)
        pool, model = SnapshotPool(num_slots, BLOCK, MIN_TOKENS, weight), Model(num_slots, weight, lease)
        found_at = {pool.version: _findable(pool)}
        for step in steps:
            apply(pool, model, *step)
            check_laws(pool)
            assert found_at.setdefault(pool.version, _findable(pool)) == _findable(pool)
            mine = [(one.slot, one.num_tokens, one.key, one.session) for one in pool.snapshots()]
            theirs = [(one.slot, one.depth, one.key, one.session) for one in sorted(model.entries, key=model.rank)]
            assert mine == theirs
            assert pool.counts() == model.counts()
            held = {entry.owner: entry.slot for entry in model.entries if entry.owner >= 0}
            for owner in range(4):
                found = pool.held_by(owner)
                assert (found and found.slot) == held.get(owner)


def test_a_pool_asks_for_256_tokens_and_counts_no_depth_unless_told() -> None:
    pool = SnapshotPool(2, BLOCK)
    assert (pool.min_tokens, snapshots.LEASE_EVICTIONS) == (256, 64)
    for depth, key in ((252, 1), (256, 2)):
        pool.save(key, depth)
    keys = [0] * 62 + [1, 2]
    assert pool.lookup(keys[:63], 999, "") is None
    found = pool.lookup(keys, 999, "")
    assert found is not None and found.key == 2
    pool.save(3, 256)
    assert [one.key for one in pool.snapshots()] == [2, 3], "the deepest is not kept for its depth"


def _findable(pool: SnapshotPool) -> dict[int, tuple[int, str]]:
    return {one.key: (one.slot, one.session) for one in pool.snapshots() if one.key is not None}
