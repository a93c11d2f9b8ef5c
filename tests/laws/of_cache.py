"""Breaches of the laws of the prefix cache, snapshots, images and windows."""

from __future__ import annotations

from dataclasses import replace

from schedlab.core.swapping import Purpose
from schedlab.errors import DeviceFault
from schedlab.events import Admitted, CacheReset, Restored, SwappedOut
from schedlab.memory.swap import Tier
from schedlab.request import FinishReason
from schedlab.sequence import State
from tests.laws.breach import Breaches, first_row, first_waiting
from tests.laws.of_memory import caching_pool
from tests.laws.stage import BLOCK, CACHE, STATES, SWAP, WINDOW, Stage

KEPT = Breaches()


@KEPT.of("only_computed_blocks_are_published", CACHE, inside=True)
def blocks_are_published_that_are_not_there(stage: Stage) -> None:
    first_row(stage).published_blocks = 100


@KEPT.of("only_computed_blocks_are_published", CACHE, inside=True)
def a_block_is_published_before_it_is_full(stage: Stage) -> None:
    pool = caching_pool(stage)
    for row in stage.core.batch.rows:
        if stage.core.batch.length(row) % BLOCK:
            pool._keys[row.block_table[-1]] = 1 << 150
            pool._blocks[1 << 150] = row.block_table[-1]


@KEPT.of("keys_and_blocks_agree", CACHE, inside=True)
def a_key_is_forgotten(stage: Stage) -> None:
    pool = caching_pool(stage)
    key = pool.key_of(first_row(stage).block_table[0])
    assert key is not None
    del pool._blocks[key]


@KEPT.of("tables_hold_blocks_of_their_own_text", CACHE, inside=True)
def a_row_has_another_text(stage: Stage) -> None:
    row = first_row(stage)
    assert row.keys
    row.keys = [key + 1 for key in row.keys]


@KEPT.of("blocks_are_shared_within_a_namespace", CACHE, inside=True)
def a_row_has_another_salt(stage: Stage) -> None:
    row = first_row(stage)
    row.request = replace(row.request, cache_salt="another")


def _two_are_idle(stage: Stage) -> bool:
    return len(caching_pool(stage).idle_list()) > 1


@KEPT.of("idle_blocks_go_leaf_first", CACHE, inside=True, ready=_two_are_idle)
def idle_blocks_are_turned_round(stage: Stage) -> None:
    pool = caching_pool(stage)
    pool._next, pool._previous = pool._previous, pool._next


@KEPT.of("snapshots_have_a_slot_each", STATES, inside=True)
def a_snapshot_is_off_its_boundary(stage: Stage) -> None:
    assert stage.core.snapshots is not None
    stage.core.snapshots.snapshots()[0].num_tokens += 1


@KEPT.of("a_seat_starts_behind_its_own_prefix", CACHE)
def a_request_starts_behind_anothers_text(stage: Stage) -> None:
    sequence = first_waiting(stage)
    sequence.block_table, sequence.num_computed, sequence.keys = first_row(stage).block_table[:1], BLOCK, [1 << 150]
    stage.tell(Admitted(stage.now_ns, sequence))


@KEPT.of("a_seat_starts_at_a_snapshot_it_may_use", STATES)
def a_request_starts_without_its_state(stage: Stage) -> None:
    sequence, block = first_waiting(stage), first_row(stage).block_table[0]
    key = caching_pool(stage).key_of(block)
    assert key is not None
    sequence.block_table, sequence.num_computed, sequence.keys = [block], BLOCK, [key]
    sequence.cached_snapshot = None
    stage.tell(Admitted(stage.now_ns, sequence))


@KEPT.of("a_seat_starts_behind_whole_cached_blocks")
def a_request_starts_inside_a_block(stage: Stage) -> None:
    first_waiting(stage).num_computed = BLOCK - 1
    stage.tell(Admitted(stage.now_ns, first_waiting(stage)))


@KEPT.of("hits_are_counted_once", CACHE)
def hits_are_counted_twice(stage: Stage) -> None:
    def count(sequence: object, _: object) -> None:
        sequence.num_cached_tokens += BLOCK  # type: ignore[attr-defined]

    stage.wrap("forget", before=count)


@KEPT.of("errors_leave_nothing_in_the_cache", CACHE)
def a_failed_step_is_published(stage: Stage) -> None:
    def fail(result: object) -> None:
        result.fault = DeviceFault("it failed")  # type: ignore[attr-defined]

    def publish(sequence: object) -> None:
        block, pool = sequence.block_table[-1], caching_pool(stage)  # type: ignore[attr-defined]
        if pool.key_of(block) is None:
            pool._keys[block] = 1 << 150
            pool._blocks[1 << 150] = block

    stage.wrap("commit", before=fail)
    stage.wrap("unseat", before=publish)


@KEPT.of("a_reset_cache_is_empty", CACHE)
def a_cache_in_use_is_said_to_be_empty(stage: Stage) -> None:
    stage.tell(CacheReset(stage.now_ns, done=True))


def _someone_is_swapped(stage: Stage) -> bool:
    return any(one.state is State.SWAPPED for one in stage.core.parked)


@KEPT.of("images_fill_their_tiers", SWAP, inside=True, ready=_someone_is_swapped)
def a_byte_too_many_is_taken(stage: Stage) -> None:
    stage.core.swap.used_bytes[Tier.HOST] += 1


@KEPT.of("parked_own_nothing", SWAP, inside=True, ready=_someone_is_swapped)
def a_swapped_request_has_a_slot(stage: Stage) -> None:
    stage.core.parked[0].slot = 7


@KEPT.of("restoring_waits_for_its_copy", SWAP, inside=True, ready=lambda stage: stage.core.restoring)
def the_copy_that_restores_is_forgotten(stage: Stage) -> None:
    (ticket, *_) = stage.core.restoring.values()
    del stage.core.copies[ticket.number]


def _open_saves(stage: Stage) -> list[int]:
    return [number for number, copy in stage.core.copies.items() if copy.purpose is Purpose.SAVE]


SWAP_AND_CACHE = replace(SWAP, config=replace(SWAP.config, prefix_cache=True))


@KEPT.of("what_has_not_come_is_not_found", SWAP_AND_CACHE, ready=lambda stage: stage.core.restoring)
def a_block_is_found_before_its_copy_has_ended(stage: Stage) -> None:
    sequence, pool = next(iter(stage.core.restoring)), caching_pool(stage)
    pool._keys[sequence.block_table[0]] = 1 << 150
    pool._blocks[1 << 150] = sequence.block_table[0]
    stage.core.end(sequence, FinishReason.CANCELLED)


@KEPT.of("only_open_copies_keep_memory", SWAP, inside=True, ready=_open_saves)
def a_copy_ends_and_its_blocks_wait(stage: Stage) -> None:
    for number in _open_saves(stage):
        del stage.core.copies[number]


@KEPT.of("an_image_holds_all_blocks", SWAP)
def a_request_is_swapped_out_without_image(stage: Stage) -> None:
    stage.tell(SwappedOut(stage.now_ns, first_row(stage), Tier.HOST, 3, 0))


@KEPT.of("a_swap_keeps_everything", SWAP)
def a_request_is_restored_as_it_joined(stage: Stage) -> None:
    stage.tell(Restored(stage.now_ns, first_row(stage)))


def _someone_slides(stage: Stage) -> bool:
    return any(row.window is not None for row in stage.core.batch.rows)


@KEPT.of("windows_only_move_on", WINDOW, inside=True, ready=_someone_slides)
def a_block_is_safe_before_its_copy_has_begun(stage: Stage) -> None:
    (window, *_) = [row.window for row in stage.core.batch.rows if row.window is not None]
    window.offloaded = window.requested + 1
