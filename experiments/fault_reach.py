"""What a fault plan can reach in a run: a fault that nothing of the run can ever meet is refused."""

from __future__ import annotations

from collections.abc import Iterator

from schedlab.config import PreemptionMode, SchedulerConfig
from schedlab.device import CopyKind
from schedlab.errors import UsageError
from schedlab.fault_plan import FaultPlan

_HOST = (CopyKind.DEVICE_TO_HOST, CopyKind.HOST_TO_DEVICE)


def refuse_idle_faults(plan: FaultPlan, scheduler: SchedulerConfig, num_rows: int) -> None:
    """Refuse what no copy, and no request of a trace of so many rows, can meet.

    Raises:
        UsageError: the message names the table by its place among those of its kind.
    """
    for table, fault in _idle_faults(plan, scheduler, num_rows):
        raise UsageError(f"faults: {table}: {fault}")


def links_of(scheduler: SchedulerConfig) -> tuple[CopyKind, ...]:
    """The links that a scheduler with this configuration may use."""
    if not scheduler.uses_swap:
        return ()
    uses_disk = scheduler.window_blocks or (scheduler.swap_disk_gib and scheduler.preemption is not PreemptionMode.HOST)
    return tuple(CopyKind) if uses_disk else _HOST


def _idle_faults(plan: FaultPlan, scheduler: SchedulerConfig, num_rows: int) -> Iterator[tuple[str, str]]:
    used = links_of(scheduler)
    with_what = f"preemption={scheduler.preemption}, window_blocks={scheduler.window_blocks}"
    tables = [(f"slow_links {number}", slow.kinds) for number, slow in enumerate(plan.slow_links, 1)]
    tables += [(f"copy_failure {number}", failure.kinds) for number, failure in enumerate(plan.copy_failures, 1)]
    tables += [(f"disk_full {number}", (CopyKind.HOST_TO_DISK,)) for number, _ in enumerate(plan.disk_full, 1)]
    for table, kinds in tables:
        if not any(kind in used for kind in kinds):
            tier = "host" if any(kind in _HOST for kind in kinds) else "disk"
            remedy = f"run with --set preemption={tier} --set swap_{tier}_gib=N, or leave it out"
            yield table, f"with {with_what} nothing is ever copied over {', '.join(kinds)}; {remedy}"
    for number, departure in enumerate(plan.departures, 1):
        if departure.request_id is not None and departure.request_id >= num_rows:
            yield (
                f"departure {number}",
                f"there is no request {departure.request_id}, the last is {num_rows - 1}; leave it out",
            )
