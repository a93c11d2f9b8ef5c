"""Defects put into the scheduler or its pools, one at a time: the shadow KV reports each, and nothing without them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from schedlab.config import PreemptionMode
from schedlab.core import caching, lanes, swapping, windows
from schedlab.core.scheduler import Scheduler
from schedlab.device import CopyKind, CopyOp
from schedlab.errors import InvariantViolation
from schedlab.memory.blocks import BlockPool
from schedlab.memory.prefix import CachingBlockPool
from schedlab.sequence import Sequence
from schedlab.testing import World
from tests.unit.shadow_helpers import one, run_unchecked, said, small_world, steps_a_block

Patch = pytest.MonkeyPatch
SWAP: dict[str, Any] = {"preemption": PreemptionMode.HOST, "swap_host_gib": 4}
CACHE: dict[str, Any] = {"prefix_cache": True}
WINDOW: dict[str, Any] = {"window_blocks": 2, "swap_disk_gib": 4}


def before(patch: Patch, owner: object, name: str, first: Callable[..., None]) -> None:
    """Make `owner.name(...)` call `first` with the same arguments before it does its work."""
    real = getattr(owner, name)

    def call(*arguments: Any) -> Any:
        first(*arguments)
        return real(*arguments)

    patch.setattr(owner, name, call)


def after(patch: Patch, owner: object, name: str, last: Callable[..., None]) -> None:
    """Make `owner.name(...)` call `last` with the same arguments when it has done its work."""
    real = getattr(owner, name)

    def call(*arguments: Any) -> Any:
        answer = real(*arguments)
        last(*arguments)
        return answer

    patch.setattr(owner, name, call)


def a_block_is_handed_out_twice(patch: Patch) -> None:
    handed_out: list[int] = []
    real = BlockPool.allocate

    def allocate(pool: BlockPool, count: int) -> list[int]:
        blocks = real(pool, count)
        if blocks and handed_out:
            pool.share(handed_out[:1])
            blocks[0] = handed_out[0]
        handed_out.extend(blocks)
        return blocks

    patch.setattr(BlockPool, "allocate", allocate)


def two_entries_of_a_table_change_places(patch: Patch) -> None:
    def swap(core: Scheduler) -> None:
        for row in core.batch.rows:
            if len(row.block_table) == 3:
                row.block_table[:2] = row.block_table[1::-1]

    after(patch, Scheduler, "end_tick", swap)


def an_entry_of_a_table_is_that_of_another(patch: Patch) -> None:
    def mix_up(core: Scheduler) -> None:
        rows = list(core.batch.rows)
        if len(rows) > 1:
            rows[0].block_table[0] = rows[1].block_table[0]
            core.pool.share(rows[1].block_table[:1])

    after(patch, Scheduler, "end_tick", mix_up)


def a_cached_block_is_handed_out_with_its_key(patch: Patch) -> None:
    real = CachingBlockPool.allocate

    def allocate(pool: CachingBlockPool, count: int) -> list[int]:
        idle = list(pool.idle_list()[:count])
        pool.hold(idle)
        return idle + real(pool, count - len(idle))

    patch.setattr(CachingBlockPool, "allocate", allocate)


def an_image_comes_back_in_the_wrong_order(patch: Patch) -> None:
    after(patch, swapping, "restore", lambda core, sequence: sequence.block_table.reverse())


def nobody_waits_for_open_copies(patch: Patch) -> None:
    patch.setattr(BlockPool, "take_tickets", lambda pool: ())


def an_image_is_never_made(patch: Patch) -> None:
    def copy(kind: CopyKind, blocks: tuple[int, ...], *rest: Any) -> CopyOp:
        return CopyOp(kind, () if kind is CopyKind.DEVICE_TO_HOST else blocks, *rest)

    patch.setattr(swapping, "CopyOp", copy)


def a_disk_image_is_read_before_it_is_written(patch: Patch) -> None:
    def forget_the_writing(core: Scheduler, sequence: Sequence) -> None:
        assert sequence.image is not None
        sequence.image.written = None

    before(patch, swapping, "restore", forget_the_writing)


def a_block_is_published_before_it_is_full(patch: Patch) -> None:
    def publish(core: Scheduler, sequence: Sequence) -> None:
        if sequence.keys and isinstance(core.pool, CachingBlockPool):
            blocks = min(len(sequence.block_table), len(sequence.keys))
            core.pool.publish(sequence.keys, sequence.block_table, sequence.published_blocks, blocks)
            sequence.published_blocks = blocks

    patch.setattr(lanes, "publish_prompt", publish)


def salts_share_blocks(patch: Patch) -> None:
    patch.setattr(caching, "_namespace", lambda core, sequence: ("", "", ""))


def tenants_share_blocks(patch: Patch) -> None:
    salts_share_blocks(patch)


def a_far_block_leaves_before_it_is_on_disk(patch: Patch) -> None:
    def believe(core: Scheduler, sequence: Sequence, excess: int) -> None:
        assert sequence.window is not None
        sequence.window.offloaded = sequence.window.requested

    before(patch, windows, "_release", believe)


def another_far_block_goes_to_disk(patch: Patch) -> None:
    def copy(kind: CopyKind, blocks: tuple[int, ...], *rest: Any) -> CopyOp:
        op = CopyOp(kind, blocks, *rest)
        return op._replace(first_block=op.first_block + 1) if kind is CopyKind.DEVICE_TO_HOST else op

    patch.setattr(windows, "CopyOp", copy)


def a_preempted_one_goes_on_where_it_was(patch: Patch) -> None:
    patch.setattr(Scheduler, "_forget_computed", lambda core, sequence: None)


def the_device_hears_of_no_slot_move(patch: Patch) -> None:
    def compact(core: Scheduler) -> None:
        for _ in core.slots.moves(core.batch.rows, len(core.batch.rows)):
            continue

    patch.setattr(Scheduler, "compact_slots", compact)


THREE = (one(6, 20), one(9, 20), one(3, 20))
TIGHT = small_world(12, *THREE)
SWAPPING = small_world(12, *THREE, links=steps_a_block(3), **SWAP)
TO_DISK = small_world(
    12, *THREE, links=steps_a_block(3), preemption=PreemptionMode.DISK, swap_disk_gib=4, resume_headroom_blocks=0
)
SAID_AGAIN = small_world(12, one(17, 2, 0, said()), one(24, 8, 10), one(19, 6, 15, said()), **CACHE)
SAID_AT_ONCE = small_world(40, one(41, 4, 0, said()), one(41, 4, 2.5, said()), max_prefill_tokens=10, **CACHE)
SALTED = small_world(40, one(21, 6, 0, said(salt="a")), one(23, 6, 8, said(salt="b")), **CACHE)
TENANTS = small_world(
    40, one(21, 6, 0, said(tenant="a")), one(23, 6, 8, said(tenant="b")), cache_per_tenant=True, **CACHE
)
LONG = small_world(40, one(6, 40), one(10, 30), links=steps_a_block(9), **WINDOW)
DENSE = small_world(40, one(6, 3), one(9, 20), one(3, 20), wants_dense_slots=True)

DEFECTS: tuple[tuple[Callable[[Patch], None], World], ...] = (
    (a_block_is_handed_out_twice, TIGHT),
    (two_entries_of_a_table_change_places, TIGHT),
    (an_entry_of_a_table_is_that_of_another, TIGHT),
    (a_preempted_one_goes_on_where_it_was, TIGHT),
    (a_cached_block_is_handed_out_with_its_key, SAID_AGAIN),
    (a_block_is_published_before_it_is_full, SAID_AT_ONCE),
    (salts_share_blocks, SALTED),
    (tenants_share_blocks, TENANTS),
    (an_image_comes_back_in_the_wrong_order, SWAPPING),
    (an_image_is_never_made, SWAPPING),
    (nobody_waits_for_open_copies, SWAPPING),
    (a_disk_image_is_read_before_it_is_written, TO_DISK),
    (a_far_block_leaves_before_it_is_on_disk, LONG),
    (another_far_block_goes_to_disk, LONG),
    (the_device_hears_of_no_slot_move, DENSE),
)
names = [inject.__name__ for inject, _ in DEFECTS]


@pytest.mark.parametrize("leap", [True, False])
@pytest.mark.parametrize(("inject", "world"), DEFECTS, ids=names)
def test_the_shadow_reports_that(inject: Callable[[Patch], None], world: World, leap: bool, monkeypatch: Patch) -> None:
    run_unchecked(world, leap=leap)
    inject(monkeypatch)
    with pytest.raises(InvariantViolation) as found:
        run_unchecked(world, leap=leap)
    law = "no_step_touches_a_block" if inject is nobody_waits_for_open_copies else "outputs_equal_the_solo_run"
    assert str(found.value).startswith(law)


def test_a_report_names_the_request_the_output_and_what_the_block_held(monkeypatch: Patch) -> None:
    """Request 0 has 6 prompt tokens, so it fills its second block with output 2 and takes a third for output 3."""
    two_entries_of_a_table_change_places(monkeypatch)
    with pytest.raises(InvariantViolation) as found:
        run_unchecked(small_world(12, one(6, 20)), leap=False)
    message = str(found.value)
    assert "request 0, 20 outputs" in message
    assert "first at output 4: block 1 held 4 tokens" in message
    assert "of block 1 of request 0 where it should hold block 0 of request 0" in message
