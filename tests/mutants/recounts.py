"""An observer that recounts after each tick what a scheduler notes of copies, lookups and windows, and asks no note."""

from __future__ import annotations

from schedlab.core.scheduler import Scheduler
from schedlab.core.swapping import Purpose
from schedlab.memory.prefix import CachingBlockPool
from schedlab.sequence import Sequence, State
from tests.mutants import naive_facts as facts


def recount(core: Scheduler) -> None:
    """Compare from now on."""
    end_tick, unseat = core.end_tick, core.unseat

    def ended() -> None:
        end_tick()
        for look in (images_wait_for_their_own_copies, windows_know_their_copies, lookups_are_good, ready_go_first):
            look(core)

    def unseated(sequence: Sequence) -> None:
        alone = _alone(core, sequence)
        unseat(sequence)
        pool = core.pool
        found = [block for block in alone if isinstance(pool, CachingBlockPool) and pool.key_of(block) is not None]
        assert not found, f"{sequence} has let its beginning go, and blocks {found} behind it can be found"

    setattr(core, "end_tick", ended)  # noqa: B010 - the driver calls it by this name
    setattr(core, "unseat", unseated)  # noqa: B010 - as above


def _alone(core: Scheduler, sequence: Sequence) -> list[int]:
    """Blocks that a row with a window that has slid holds alone."""
    if sequence.window is None or not sequence.window.start:
        return []
    held = facts.holders(core)
    return [block for block in sequence.block_table if held[block] == 1]


def images_wait_for_their_own_copies(core: Scheduler) -> None:
    """For the last that writes them, while that is under way."""
    for sequence in facts.of_state(core, State.SWAPPED, State.RESTORING):
        image = sequence.image
        assert image is not None, f"{sequence} has no image"
        writes = [
            number
            for number, copy in core.copies.items()
            if copy.image is image and copy.purpose in (Purpose.SAVE, Purpose.WRITE)
        ]
        found, expected = image.written and image.written.number, max(writes, default=None)
        assert found == expected, f"the image of {sequence} waits for copy {found}, should for {expected}"


def windows_know_their_copies(core: Scheduler) -> None:
    for row in facts.rows(core):
        if row.window is not None and not row.window.is_stuck:
            found = row.window.requested - row.window.offloaded
            expected = sum(window is row.window for window in core.offloads.values())
            assert found == expected, f"{row} waits for {found} copies of its window, {expected} are under way"


def lookups_are_good(core: Scheduler) -> None:
    """An answer of a former lookup that counts as good is what a new one gives."""
    pool = core.pool
    if not isinstance(pool, CachingBlockPool):
        return
    version = pool.version + (core.snapshots.version if core.snapshots is not None else 0)
    for one in facts.of_state(core, State.PENDING, State.PREEMPTED):
        if one.cached_prefix_version == version:
            expected = facts.found_blocks(core, one)
            assert one.cached_prefix == expected, f"{one} believes to find {one.cached_prefix}, finds {expected}"


def ready_go_first(core: Scheduler) -> None:
    """Of the blocks that count as ready none is read by a copy."""
    pool = core.pool
    ready = [*pool.free_list()[::-1], *(pool.idle_list() if isinstance(pool, CachingBlockPool) else ())]
    read = {block for block in ready[: pool.ready_blocks] if block in pool._open}
    assert not read, f"{pool.ready_blocks} blocks are ready, of them copies read {read}"
