"""Where the windows of long rows stand, by the configured share in words of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlab.law import Law, When
from schedlab.memory.swap import Tier
from schedlab.sequence import Sequence

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler

SHARE = Law(
    "windows_keep_their_share",
    "After a plan a row has just as many blocks on their way to disk as it has or will next have beyond its share, and "
    "gives up those that are safe there and none of its share.",
    When.SWEEP,
    numbers=(79,),
)


def windows_keep_their_share(core: Scheduler) -> None:
    """After a plan in which nobody gave way. O(rows)."""
    # A row alone must have a place for its next block beside its share.
    share = min(core.config.window_blocks, core.pool.total_blocks - 1)
    for row in core.batch.rows:
        window = row.window
        start, offloaded, requested = (window.start, window.offloaded, window.requested) if window else (0, 0, 0)
        total = start + len(row.block_table)
        # One more is coming; the newest is still written to.
        wanted = max(0, min(total + 1 - share, total - 1))
        is_late = requested < wanted and not (window is not None and window.is_stuck) and _has_room(core)
        leaving = max(0, total - share)
        if is_late or requested > wanted or start != min(leaving, offloaded):
            raise SHARE.broken(_found(row, share, (start, offloaded, requested)), row.request_id)


def _has_room(core: Scheduler) -> bool:
    used_bytes, budget_bytes = core.swap.used_bytes[Tier.DISK], core.swap.budget_bytes[Tier.DISK]
    return used_bytes + core.device.facts.block_bytes <= budget_bytes


def _found(row: Sequence, share: int, cursors: tuple[int, int, int]) -> str:
    return f"{row} has {len(row.block_table)} blocks of a share of {share}, and (left, safe, begun) {cursors}"
