"""The sentences that stand with a replay's numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from backends.sim.links import HOST_LINK_PERCENT
from experiments import truth
from experiments.memory import about_snapshots, scheduler_for
from experiments.setup import Setup
from reports.table import none_served
from schedlab.device import CopyKind
from schedlab.policies.priority import Priority
from traces.words import counted

MANY = 0.01
PARTIAL = "partial: the run was interrupted; only what had happened until then is counted"


def notes_of(setup: Setup, summary: Mapping[str, Any]) -> list[str]:
    """What a reader must know before the numbers, most important first: of this run, then of every run."""
    return list(_sentences(setup, summary))


def _sentences(setup: Setup, summary: Mapping[str, Any]) -> Iterator[str]:
    if summary["partial"]:
        yield PARTIAL
    if warning := none_served(summary) or _many_refused(summary["requests"]):
        yield warning
    yield from _about_faults(setup, summary)
    yield from _about_the_trace(setup, summary["trace_rows"])
    if setup.options.rate_scale != 1:
        yield f"arrivals are {setup.options.rate_scale:g} times as dense as the trace's (--rate-scale)"
    yield setup.limit.sentence()
    if setup.policy.name == Priority.name and setup.workload.stats.one_priority:
        yield "all rows have the same priority, so that policy priority serves them as fifo does"
    if setup.model.recurrent is not None:
        wanted = scheduler_for(setup.options, setup.model)[0].snapshot_slots
        yield from about_snapshots(setup.model, setup.scheduler, wanted)
    elif setup.workload.stats.has_hash_ids and not setup.scheduler.prefix_cache:
        yield "the trace names shared prompt blocks, but every prompt is computed whole: the prefix cache is off"
    if "swap" in summary:
        yield _about_links(setup)
    cut = summary["cut_outputs"]
    if cut["requests"]:
        outputs, tokens = counted(cut["requests"], "output was", "outputs were"), counted(cut["tokens"], "token")
        yield f"{outputs} cut by a limit; {tokens} of the trace did not come"
    yield from _about_losses(summary)
    yield from _about_the_times(setup)


def _many_refused(counts: Mapping[str, int]) -> str:
    """That the figures leave out a share of the requests that bears on them; else empty."""
    refused, arrived = counts["refused"], counts["arrived"]
    if refused <= arrived * MANY:
        return ""
    return f"{refused:,} of {arrived:,} requests were refused; latencies are of the others"


def _about_the_trace(setup: Setup, rows: Mapping[str, Any]) -> Iterator[str]:
    yield from setup.workload.origin()
    read = counted(rows["read"], "row")
    dropped = "".join(f", {count:,} dropped ({reason})" for reason, count in rows["dropped"].items())
    reordered = f", {rows['reordered']:,} put in order" if rows["reordered"] else ""
    yield f"{read} read{dropped}{reordered}, {rows['sent']:,} sent"


def _about_the_times(setup: Setup) -> Iterator[str]:
    cost, changed = setup.options.cost, ", ".join(setup.options.cost_set)
    if cost == "roofline":
        yield truth.sentence()
        if changed:
            yield f"that comparison is of the roofline as it ships; this run sets {changed}"
    else:
        yield f"times come from the cost model {cost!r}: they are set by hand and say nothing of {setup.hardware.name}"


def _about_faults(setup: Setup, summary: Mapping[str, Any]) -> Iterator[str]:
    """What was injected; a lost device ends the run."""
    faults = summary.get("faults")
    if faults is None:
        return
    if faults["device_lost_s"] is not None:
        unsent = setup.workload.stats.rows - summary["trace_rows"]["sent"]
        yield (
            f"cut short: the device was lost, which its next step found at {faults['device_lost_s']:.3f} s; who lived "
            f"then ended with an error, and {unsent:,} rows of the trace were never sent"
        )
    yield (
        f"faults were injected: {faults['failed_steps']:,} steps failed, {faults['slow_steps']:,} took longer, "
        f"{faults['failed_copies']:,} copies failed, {faults['slow_copies']:,} took longer, "
        f"{faults['departures']:,} clients left"
    )


def _about_links(setup: Setup) -> str:
    speeds = {kind: f"{link.bytes_per_s / 1e9:g} GB/s" for kind, link in setup.links.items()}
    return (
        f"copies are assumed to run at {speeds[CopyKind.HOST_TO_DEVICE]} each way between GPU and host "
        f"({HOST_LINK_PERCENT} % of {setup.hardware.name}'s data sheet), at {speeds[CopyKind.HOST_TO_DISK]} to disk "
        f"and {speeds[CopyKind.DISK_TO_HOST]} from disk, for each GPU by itself"
    )


def _about_losses(summary: Mapping[str, Any]) -> Iterator[str]:
    for what in ("refused", "failed"):
        for group in summary[what]:
            yield f"{group['count']:,} {what}; the first is request {group['first_request']}: {group['reason']}"
    if summary["unsent_turns"]:
        turns = counted(summary["unsent_turns"], "turn was", "turns were")
        uncounted = "; the shares of goodput are of the requests sent, without them" if "goodput" in summary else ""
        yield f"{turns} never sent: a turn before in the same session got no answer{uncounted}"
