"""What must hold between two ticks, after `end_tick`, by what it costs to look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlab.invariants.audit import AUDIT_CHECKS
from schedlab.invariants.cached import CACHE_AUDITS, CACHE_CHECKS
from schedlab.invariants.moment import MOMENT_CHECKS
from schedlab.invariants.owners import OWNER_CHECKS
from schedlab.invariants.sums import SUM_CHECKS
from schedlab.invariants.swapped import SWAP_CHECKS

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler

SWEEP_CHECKS = (*OWNER_CHECKS, *SWAP_CHECKS, *SUM_CHECKS, *CACHE_CHECKS)


def check(core: Scheduler) -> None:
    """Check every law that must hold at a tick's end. O(blocks + live sequences).

    Raises:
        InvariantViolation: a law does not hold; it names the law, what was found and whom it concerns.
    """
    check_moment(core)
    sweep(core)
    for look in (*AUDIT_CHECKS, *CACHE_AUDITS):
        look(core)


def check_moment(core: Scheduler) -> None:
    """Limits and sums: O(1)."""
    for look in MOMENT_CHECKS:
        look(core)


def sweep(core: Scheduler) -> None:
    """Everyone who owns a seat or was preempted: O(such sequences)."""
    for look in SWEEP_CHECKS:
        look(core)
