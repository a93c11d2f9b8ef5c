"""Who may use which snapshot, what a session keeps, and who is evicted."""

from __future__ import annotations

from schedlab.memory.snapshots import LEASE_EVICTIONS, SnapshotPool

BLOCK = 16
TEXT = list(range(1000, 1100))


def saved(pool: SnapshotPool, blocks: int, session: str = "", text: list[int] = TEXT) -> int | None:
    return pool.save(text[blocks - 1], blocks * BLOCK, session)


def depth(pool: SnapshotPool, matched_blocks: int, session: str = "", text: list[int] = TEXT) -> int:
    found = pool.lookup(text, matched_blocks * BLOCK, session)
    return found.num_tokens // BLOCK if found else 0


def text_of(session: int) -> list[int]:
    return list(range(session * 10_000, session * 10_000 + 100))


def test_the_deepest_snapshot_at_or_below_the_match_is_used() -> None:
    pool = SnapshotPool(8, BLOCK)
    for blocks in (16, 32, 64):
        saved(pool, blocks)
    assert [depth(pool, matched) for matched in (15, 16, 31, 32, 63, 64, 100)] == [0, 16, 16, 32, 32, 64, 64]


def test_fewer_tokens_than_the_minimum_are_never_used() -> None:
    pool = SnapshotPool(8, BLOCK)
    saved(pool, 15)
    assert depth(pool, 100) == 0
    saved(pool, 16)
    assert depth(pool, 100) == 16
    lower = SnapshotPool(8, BLOCK, min_tokens=240)
    saved(lower, 15)
    assert depth(lower, 100) == 15


def test_another_text_or_a_shorter_one_finds_nothing() -> None:
    pool = SnapshotPool(8, BLOCK)
    saved(pool, 20)
    assert depth(pool, 100, text=text_of(7)) == 0
    assert pool.lookup(TEXT[:19], 100 * BLOCK, "") is None


def test_a_tail_is_for_its_session_alone() -> None:
    pool = SnapshotPool(8, BLOCK)
    saved(pool, 20, "mine")
    saved(pool, 18)
    assert [depth(pool, 100, session) for session in ("mine", "theirs", "")] == [20, 18, 18]


def test_a_session_keeps_its_tail_and_a_sibling_one_block_below() -> None:
    pool = SnapshotPool(8, BLOCK)
    saved(pool, 30, "s")
    saved(pool, 31, "s")
    assert (pool.used_slots, depth(pool, 30, "s"), depth(pool, 31, "s")) == (2, 30, 31)
    saved(pool, 40, "s")
    assert (pool.used_slots, depth(pool, 39, "s"), depth(pool, 40, "s")) == (1, 0, 40)
    saved(pool, 20, "s")
    assert (pool.used_slots, depth(pool, 100, "s")) == (1, 20)
    assert pool.num_evicted == 0


def test_a_rewrite_gives_back_the_slot_that_it_displaces() -> None:
    pool = SnapshotPool(2, BLOCK)
    for session in ("a", "b", "c", ""):
        assert saved(pool, 20, session) is not None
        assert pool.used_slots == 1
    assert depth(pool, 100, "a") == 20 and pool.num_evicted == 0


def test_the_stalest_session_goes_first_and_of_it_the_least_recent_entry() -> None:
    pool = SnapshotPool(4, BLOCK)
    saved(pool, 20, "old", text_of(1))
    saved(pool, 21, "old", text_of(1))
    saved(pool, 20, "young", text_of(2))
    saved(pool, 20, "", text_of(3))
    saved(pool, 20, "x", text_of(4))
    assert (depth(pool, 20, "old", text_of(1)), depth(pool, 21, "old", text_of(1))) == (0, 21)
    saved(pool, 20, "y", text_of(5))
    assert depth(pool, 21, "old", text_of(1)) == 0
    saved(pool, 20, "z", text_of(6))
    assert depth(pool, 20, "young", text_of(2)) == 0
    assert depth(pool, 20, "", text_of(3)) == 20


def test_use_makes_a_session_and_an_entry_young_again() -> None:
    pool = SnapshotPool(3, BLOCK)
    for number in (1, 2, 3):
        saved(pool, 20, "", text_of(number))
    found = pool.lookup(text_of(1), 20 * BLOCK, "")
    assert found is not None
    pool.use(found, "")
    saved(pool, 20, "", text_of(4))
    assert [depth(pool, 20, "", text_of(number)) for number in (1, 2, 3, 4)] == [20, 0, 20, 20]


def test_depth_counts_as_much_as_its_weight_says() -> None:
    for weight, kept in ((0, [0, 20, 20]), (1, [40, 0, 20])):
        pool = SnapshotPool(2, BLOCK, depth_weight=weight)
        saved(pool, 40, "", text_of(1))
        saved(pool, 20, "", text_of(2))
        saved(pool, 20, "", text_of(3))
        assert [depth(pool, 100, "", text_of(number)) for number in (1, 2, 3)] == kept


def test_the_lease_holds_for_a_number_of_evictions() -> None:
    pool = SnapshotPool(2, BLOCK)
    saved(pool, 20, "leased", text_of(0))
    found = pool.lookup(text_of(0), 20 * BLOCK, "leased")
    assert found is not None
    pool.use(found, "leased")
    saved(pool, 20, "", text_of(1))
    for number in range(LEASE_EVICTIONS):
        assert saved(pool, 20, "", text_of(number + 2)) is not None
        assert depth(pool, 20, "leased", text_of(0)) == 20
    saved(pool, 20, "", text_of(900))
    assert depth(pool, 20, "leased", text_of(0)) == 0


def test_a_lease_that_has_ended_does_not_come_back() -> None:
    pool = SnapshotPool(2, BLOCK)
    saved(pool, 20, "leased", text_of(0))
    found = pool.lookup(text_of(0), 20 * BLOCK, "leased")
    assert found is not None
    pool.use(found, "leased")
    for number in range(LEASE_EVICTIONS + 9):
        saved(pool, 20, "", text_of(number + 1))
    saved(pool, 20, "leased", text_of(0))
    for number in (901, 902):
        assert depth(pool, 20, "leased", text_of(0)) == 20
        saved(pool, 20, "", text_of(number))
    assert depth(pool, 20, "leased", text_of(0)) == 0


def test_nothing_is_saved_when_nothing_may_be_evicted() -> None:
    pool = SnapshotPool(1, BLOCK)
    saved(pool, 20, "leased")
    found = pool.lookup(TEXT, 20 * BLOCK, "leased")
    assert found is not None
    pool.use(found, "leased")
    assert saved(pool, 20, "other", text_of(1)) is None
    assert saved(pool, 21, "leased") is None
    assert depth(pool, 100, "leased") == 20
    assert saved(pool, 30, "leased") is not None
    assert saved(SnapshotPool(0, BLOCK), 20) is None


def test_what_a_running_sequence_holds_is_found_only_when_it_settles() -> None:
    pool = SnapshotPool(4, BLOCK)
    saved(pool, 18, "s")
    pool.hold(7, 20 * BLOCK)
    pool.hold(7, 24 * BLOCK)
    assert (pool.used_slots, depth(pool, 100, "s")) == (2, 18)
    pool.settle(7, TEXT[23], "s")
    assert (pool.used_slots, depth(pool, 100, "s"), depth(pool, 23, "s")) == (1, 24, 0)
    assert pool.held_by(7) is None
    pool.hold(8, 28 * BLOCK)
    pool.drop(8)
    pool.settle(8, TEXT[27], "s")
    assert (pool.used_slots, depth(pool, 100, "s")) == (1, 24)


def test_a_state_that_is_there_already_is_not_saved_twice() -> None:
    pool = SnapshotPool(4, BLOCK)
    saved(pool, 20)
    assert pool.refresh(TEXT[19], "s") and pool.refresh(TEXT[19], "")
    pool.hold(1, 20 * BLOCK)
    pool.settle(1, TEXT[19], "s")
    assert (pool.used_slots, depth(pool, 20, "anyone")) == (1, 20)
    saved(pool, 30, "s")
    assert pool.refresh(TEXT[29], "s") and not pool.refresh(TEXT[29], "t")


def test_a_use_without_a_session_leaves_the_lease_where_it_is() -> None:
    pool = SnapshotPool(2, BLOCK, 1)
    for key, session in ((1, "a"), (2, "")):
        pool.save(key, BLOCK, session)
        found = pool.lookup([key], BLOCK, session)
        assert found is not None
        pool.use(found, session)
    pool.save(3, BLOCK)
    assert sorted(snapshot.key or 0 for snapshot in pool.snapshots()) == [1, 3]
