"""What a request leaves in the prefix cache as it gives up its blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlab.law import Law, When
from schedlab.memory.prefix import CachingBlockPool
from schedlab.sequence import Sequence

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler

LEAVES = Law(
    "full_blocks_are_left_to_be_found",
    "Whoever gives up its blocks and is not in error leaves those that are full and have a key to be found.",
    When.EVENT,
    numbers=(55,),
)
NOT_COME = Law(
    "what_has_not_come_is_not_found",
    "Whoever leaves while a copy still brings its content back leaves no block of it to be found.",
    When.EVENT,
    numbers=(50, 55),
)


def leaves_what_it_has(core: Scheduler, sequence: Sequence, computed_tokens: int) -> None:
    """Of one that has just given up its blocks, and whose window, if it has one, had let go of none of them before."""
    pool, keys, size = core.pool, sequence.keys, core.config.block_size
    share = core.config.window_blocks
    if not keys or (share and computed_tokens > min(share, pool.total_blocks - 1) * size):
        return
    assert isinstance(pool, CachingBlockPool)
    full_blocks = min(computed_tokens // size, len(keys))
    found_blocks = len(pool.lookup(keys, full_blocks))
    if found_blocks < full_blocks:
        raise LEAVES.broken(f"{sequence}: {full_blocks} blocks, {found_blocks} can be found", sequence.request_id)


def leaves_nothing_that_has_not_come(core: Scheduler, sequence: Sequence, coming: list[int]) -> None:
    """Of one that has just left; `coming` are the blocks that a copy was bringing back for it alone."""
    pool = core.pool
    if not coming or not isinstance(pool, CachingBlockPool):
        return
    found = [block for block in coming if pool.key_of(block) is not None]
    if found:
        raise NOT_COME.broken(f"{sequence} leaves blocks {found} to be found", sequence.request_id)
