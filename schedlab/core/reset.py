"""Emptying the prefix cache, as after a change of weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlab.core.swapping import drop_image
from schedlab.events import RESET, CacheReset
from schedlab.sequence import State

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler


def reset_cache(core: Scheduler, *, preempt_running: bool) -> None:
    """Forget what every block and every saved state holds, or refuse; the event says which.

    An image on the host or the disk is in use as blocks are: its sequence goes on from it, and leaves it in the cache.
    """
    if preempt_running:
        _start_over(core)
    done = not any(sequence.image is not None for sequence in core.parked) and core.pool.reset()
    if done and core.snapshots is not None:
        core.snapshots.reset()
    core.changes += 1
    for notify in core.bus.on_cache_reset:
        notify(CacheReset(core.device.now_ns(), done))


def _start_over(core: Scheduler) -> None:
    """Everyone who owns blocks, or has an image of some, computes all of it again."""
    for owner in [*core.prefilling, *core.batch.rows, *core.restoring]:
        drop_image(core, owner)
        core.preempt(owner, RESET)
    for sequence in [one for one in core.parked if one.state is State.SWAPPED]:
        drop_image(core, sequence)
        core.compute_again(sequence, RESET)
