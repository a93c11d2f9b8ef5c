"""Breaches of the laws of blocks, slots and tables."""

from __future__ import annotations

from schedlab.memory.prefix import CachingBlockPool
from tests.laws.breach import Breaches, crowded, first_row, first_waiting, last_row
from tests.laws.stage import CACHE, DENSE, SHADOW, Stage

MEMORY = Breaches()


@MEMORY.of("a_shared_block_is_held")
def a_free_block_is_shared(stage: Stage) -> None:
    stage.core.pool.share(stage.core.pool.free_list()[:1])


@MEMORY.of("a_released_block_is_held")
def a_free_block_is_released(stage: Stage) -> None:
    stage.core.pool.release(list(stage.core.pool.free_list()[:1]))


@MEMORY.of("a_released_block_is_held", CACHE)
def a_free_block_of_a_cache_is_released(stage: Stage) -> None:
    stage.core.pool.release(list(stage.core.pool.free_list()[:1]))


@MEMORY.of("a_claimed_slot_is_free")
def a_second_slot_is_claimed(stage: Stage) -> None:
    stage.core.slots.claim(first_row(stage))


@MEMORY.of("a_claimed_slot_is_free")
def a_slot_too_many_is_claimed(stage: Stage) -> None:
    stage.core.slots.claim(first_waiting(stage))


@MEMORY.of("a_released_slot_is_its_owners")
def a_neighbours_slot_is_released(stage: Stage) -> None:
    row = first_row(stage)
    row.slot = last_row(stage).slot
    stage.core.slots.release(row)


@MEMORY.of("blocks_are_conserved", inside=True)
def a_free_block_is_listed_twice(stage: Stage) -> None:
    stage.core.pool._free[0] = stage.core.pool._free[-1]


@MEMORY.of("references_are_holders", inside=True)
def a_holder_too_many_is_counted(stage: Stage) -> None:
    stage.core.pool.share(first_row(stage).block_table[:1])


@MEMORY.of("references_are_holders", inside=True)
def a_neighbours_block_is_in_the_table(stage: Stage) -> None:
    first_row(stage).block_table[-1] = last_row(stage).block_table[-1]


def _decode_in_the_middle_of_a_block(stage: Stage) -> bool:
    core = stage.core
    return crowded(stage) and all(core.batch.length(row) % core.config.block_size for row in core.batch.rows)


@MEMORY.of("no_block_is_written_by_two", CACHE, inside=True, ready=_decode_in_the_middle_of_a_block)
def two_tables_end_with_one_block(stage: Stage) -> None:
    row, other = first_row(stage), last_row(stage)
    stage.core.pool.release(row.block_table[-1:])
    row.block_table[-1] = other.block_table[-1]
    stage.core.pool.share(row.block_table[-1:])


@MEMORY.of("tables_cover_exactly_the_tokens", inside=True)
def a_table_loses_a_block(stage: Stage) -> None:
    first_row(stage).block_table.pop()


@MEMORY.of("tables_cover_exactly_the_tokens", inside=True)
def a_block_is_taken_for_nobody(stage: Stage) -> None:
    stage.core.pool.allocate(1)


@MEMORY.of("blocks_hold_what_was_written")
def a_table_loses_a_block_before_a_step(stage: Stage) -> None:
    first_row(stage).block_table.pop()


@MEMORY.of("slots_have_one_owner", inside=True)
def two_rows_say_each_others_slot(stage: Stage) -> None:
    row, other = first_row(stage), last_row(stage)
    row.slot, other.slot = other.slot, row.slot


@MEMORY.of("slots_are_dense_after_an_end", DENSE)
def nobody_compacts(stage: Stage) -> None:
    stage.core.compact_slots = lambda: None  # type: ignore[method-assign]


@MEMORY.of("all_blocks_come_back")
def a_block_is_held_at_the_end(stage: Stage) -> None:
    stage.wrap("finish", before=lambda: stage.core.pool.allocate(1))


@MEMORY.of("outputs_equal_the_solo_run", SHADOW)
def a_table_is_turned_round(stage: Stage) -> None:
    first_row(stage).block_table.reverse()


@MEMORY.of("no_step_touches_a_block_under_an_open_copy", SHADOW)
def a_copy_uses_a_rows_blocks(stage: Stage) -> None:
    stage.device.blocks.keep_busy(first_row(stage).block_table, 1 << 80)  # type: ignore[union-attr]


@MEMORY.of("no_step_touches_a_slot_under_an_open_copy", SHADOW)
def a_copy_uses_a_rows_slot(stage: Stage) -> None:
    stage.device.states._busy_until[first_row(stage).slot] = 1 << 80  # type: ignore[union-attr]


@MEMORY.of("every_position_has_a_block", SHADOW)
def a_table_is_emptied(stage: Stage) -> None:
    first_row(stage).block_table.clear()


def caching_pool(stage: Stage) -> CachingBlockPool:
    pool = stage.core.pool
    assert isinstance(pool, CachingBlockPool)
    return pool
