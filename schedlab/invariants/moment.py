"""Laws that hold between two ticks and cost nothing that grows with the run: sums, limits, counters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlab.law import Law, When

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler

TICK_IS_OVER = Law(
    "tick_is_over",
    "After a tick no step runs, and whoever has ended has given back what it held.",
    When.TICK,
    numbers=(37,),
)
SEATS = Law(
    "seats_within_limit",
    "Sequences that own a seat (prefilling, decoding, restoring together) are at most max_num_seqs.",
    When.TICK,
    numbers=(27,),
    scenarios=(3,),
)
ONE_STATE = Law(
    "containers_add_up",
    "Every live request is in exactly one place: waiting, prefilling, decoding, preempted or restoring.",
    When.TICK,
    scenarios=(2,),
)


def tick_is_over(core: Scheduler) -> None:
    if core.in_flight is not None or core.ending:
        raise TICK_IS_OVER.broken(f"in flight {core.in_flight}, ending {list(core.ending)}")


def seats_within_limit(core: Scheduler) -> None:
    owners = len(core.batch.rows) + len(core.prefilling) + len(core.restoring)
    if owners > core.config.max_num_seqs or core.free_seats != core.config.max_num_seqs - owners:
        raise SEATS.broken(f"{owners} owners, {core.free_seats} free of {core.config.max_num_seqs} seats")


def containers_add_up(core: Scheduler) -> None:
    sizes = len(core.waiting), len(core.prefilling), len(core.batch.rows), len(core.parked), len(core.restoring)
    if sum(sizes) != len(core.sequences):
        raise ONE_STATE.broken(
            f"waiting, prefilling, decoding, preempted, restoring {sizes}; {len(core.sequences)} live"
        )


MOMENT_CHECKS = (tick_is_over, seats_within_limit, containers_add_up)
