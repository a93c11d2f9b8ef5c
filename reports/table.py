"""The summary of a run on the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reports.perfetto_json import LINK_NAMES as LINKS
from reports.units import (
    DASH,
    brief,
    clean,
    duration,
    find,
    latency_row,
    number,
    percent,
    rate,
    section,
    size,
    times,
    title_of,
)

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

COLUMNS = ("mean", "p50", "p90", "p95", "p99")
LATENCIES = (("ttft", "TTFT"), ("tpot", "TPOT"), ("itl", "ITL"), ("e2e", "E2E"), ("queue", "queue"))
BUDGETS = (
    ("max_num_seqs", "sequence", "sequences"),
    ("max_num_batched_tokens", "token a step", "tokens a step"),
    ("block_size", "token a block", "tokens a block"),
    ("num_blocks", "KV block", "KV blocks"),
)
FINISHED = ("stop", "length")


def print_summary(
    console: Console,
    summary: Mapping[str, Any],
    config: Mapping[str, Any],
    run: Mapping[str, Any],
    notes: Sequence[str],
) -> None:
    """Print what ran, its latencies, one block of everything else, and the notes.

    Latencies are read in milliseconds, shares as 0 to 1; a value that is absent shows as a dash. Nothing is read as
    markup, and control characters of names are replaced.
    """
    from rich.text import Text

    console.print(Text(headline(config), style="bold"))
    console.print(Text(budgets(config), style="dim"))
    if warning := none_served(summary):
        console.print(Text(warning, style="bold red"))
    console.print(_latency_table(summary))
    console.print(_facts_table(facts(summary, run)))
    for note in notes:
        console.print(Text.assemble(("note: ", "bold yellow"), clean(note)))


def headline(config: Mapping[str, Any]) -> str:
    """Trace, model and hardware of a run on one line."""
    tensor_parallel = find(config, "tp")
    hardware = title_of(config, "hardware") + (f" ×{tensor_parallel}" if tensor_parallel not in (None, 1) else "")
    return f"{title_of(config, 'trace')} · {title_of(config, 'model')} on {hardware}"


def budgets(config: Mapping[str, Any]) -> str:
    """Preset, policy and budgets of a run on one line."""
    named = [f"{key} {title_of(config, key)}" for key in ("preset", "policy") if title_of(config, key) != DASH]
    known = [(find(config, key), one, many) for key, one, many in BUDGETS]
    shown = [f"{number(value)} {one if value == 1 else many}" for value, one, many in known if value is not None]
    return " · ".join([*named, *shown])


def facts(summary: Mapping[str, Any], run: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Everything about a run but its latencies, as (what, how much)."""
    ended = section(summary, "requests")
    shown = [
        ("requests", f"{number(ended.get('arrived'))} arrived, {ending(ended)}"),
        ("simulated time" if "speedup" in run else "time", duration(summary.get("duration_s"))),
        ("throughput", throughput(section(summary, "throughput"))),
        ("goodput", goodput(summary)),
    ]
    return shown + _facts_of_the_scheduler(summary, run) if "steps" in summary else shown


def _facts_of_the_scheduler(summary: Mapping[str, Any], run: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What nobody sees from outside."""
    kv_use, batch = section(summary, "kv_use"), section(summary, "batch")
    return [
        ("KV use", f"{percent(kv_use.get('mean'))} mean, {percent(kv_use.get('peak'))} peak"),
        ("batch size", f"{number(batch.get('mean'))} mean, {number(batch.get('peak'))} peak"),
        ("preemptions", preemptions(summary)),
        *under_pressure(summary),
        (
            "iterations",
            f"{number(summary.get('steps'))} ({number(summary.get('iterations_per_s'))} a simulated second)",
        ),
        ("speed-up", f"{times(run.get('speedup'))} real time ({duration(run.get('wall_s'))} of wall time)"),
    ]


def none_served(summary: Mapping[str, Any]) -> str:
    """That no request was served to its end and some could not be, so that the figures say little; else empty."""
    counts = section(summary, "requests")
    reasons = section(counts, "finished")
    if any(reasons.get(reason) for reason in FINISHED) or not (counts.get("refused") or reasons.get("error")):
        return ""
    return f"no request was served: {number(counts.get('arrived'))} arrived, {ending(counts)}"


def throughput(rates: Mapping[str, Any]) -> str:
    """Requests, output tokens and all tokens per simulated second."""
    requests, output, total = (rates.get(f"{what}_per_s") for what in ("requests", "output_tokens", "total_tokens"))
    return f"{rate(requests, 'requests')}, {rate(output, 'output tokens')}, {rate(total, 'tokens')} in all"


def preemptions(summary: Mapping[str, Any]) -> str:
    """How often memory was taken away, and what that cost."""
    again = number(summary.get("recomputed_tokens"))
    return f"{number(summary.get('preemptions'))} ({again} tokens computed again), {number(summary.get('swaps'))} swaps"


def under_pressure(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Prefix cache, swap and faults, as far as the run had them."""
    rows = []
    if cache := section(summary, "cache"):
        rows.append(("prefix cache", cache_hits(cache)))
    if snapshots := section(summary, "snapshots"):
        rows.append(("state snapshots", snapshot_use(snapshots)))
    if swap := section(summary, "swap"):
        rows.append(("swap", swaps(swap)))
        rows += [("", link_use(name, section(section(swap, "links"), name))) for name in section(swap, "links")]
        if swap.get("far_block_reads"):
            rows.append(("", f"{number(swap['far_block_reads'])} blocks of windows read from disk by steps"))
    if faults := section(summary, "faults"):
        counts = [f"{number(count)} {clean(what).replace('_', ' ')}" for what, count in faults.items() if count]
        rows.append(("faults", ", ".join(counts) or "none came up"))
    return rows


def cache_hits(cache: Mapping[str, Any]) -> str:
    """What the prefix cache saved, and what it holds."""
    found = f"{number(cache.get('hit_tokens'))} tokens hit = {percent(cache.get('hit_share'))} of prompt tokens"
    again = f"{number(cache.get('hit_tokens_on_return'))} more on return"
    blocks = f"{number(cache.get('cached_blocks'))} blocks cached, {number(cache.get('evicted_blocks'))} evicted"
    return f"{found}, {again}; {blocks}"


def snapshot_use(snapshots: Mapping[str, Any]) -> str:
    """What the saved states of a hybrid's sequences were good for, and what their lack cost."""
    saved, used, evicted, held, slots = (
        number(snapshots.get(what)) for what in ("saved", "used", "evicted", "used_slots", "slots")
    )
    lost = (
        f"{number(snapshots.get('cut_hits'))} hits cut for want of one ({number(snapshots.get('cut_tokens'))} tokens)"
    )
    kept = f"{held} of {slots} slots held at the end, {evicted} evicted, the others replaced or given back"
    return f"{saved} saved ({kept}), {used} used, {lost}"


def swaps(swap: Mapping[str, Any]) -> str:
    """How many images left and came back."""
    left = ", ".join(f"{number(count)} to {clean(tier)}" for tier, count in section(swap, "swapped_out").items())
    return f"{left}, {number(swap.get('restored'))} restored"


def link_use(name: str, link: Mapping[str, Any]) -> str:
    """Copies over one link: how many bytes, for how long, and how much of that beside compute."""
    words = LINKS.get(name, clean(name))
    failed = f", {number(link['failed'])} failed" if link.get("failed") else ""
    time = f"{duration(link.get('busy_s'))}, {percent(link.get('overlap_share'))} of it beside compute"
    return f"{words}: {number(link.get('copies'))} copies, {size(link.get('bytes'))} in {time}{failed}"


def ending(requests: Mapping[str, Any]) -> str:
    """How many requests ended for which reason."""
    reasons = section(requests, "finished")
    parts = [f"{number(count)} {_end(reason)}" for reason, count in reasons.items() if reason != "refused" and count]
    if requests.get("unfinished"):
        parts.append(f"{number(requests['unfinished'])} unfinished")
    refused = requests.get("refused", reasons.get("refused"))
    return ", ".join([*parts, f"{number(refused)} refused"])


def _end(reason: str) -> str:
    return f"finished ({reason})" if reason in FINISHED else clean(reason)


def goodput(summary: Mapping[str, Any]) -> str:
    """The share and rate of requests that met every target of the SLO, with the targets.

    A target on ITL is met by gaps between tokens, not by requests; its share stands apart.
    """
    record = section(summary, "goodput")
    if not record:
        return f"{DASH} (no SLO given)"
    targets = {name: brief(duration(value)) for name, value in section(record, "targets").items()}
    of_requests = ", ".join(f"{clean(name).upper()} ≤ {target}" for name, target in targets.items() if name != "itl")
    said = []
    if of_requests or "itl" not in targets:
        share, good = percent(record.get("share")), rate(record.get("requests_per_s"), "requests")
        said.append(f"{share} = {good} within {of_requests or DASH}")
    if "itl" in targets:
        share = percent(section(record, "attainment").get("itl"))
        said.append(f"{share} of gaps between tokens within ITL ≤ {targets['itl']}")
    return "; ".join(said)


def _latency_table(summary: Mapping[str, Any]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("latency")
    for name in COLUMNS:
        table.add_column(name, justify="right", min_width=7)
    table.add_column("unit", style="dim")
    for key, label in LATENCIES:
        unit, cells = latency_row(section(summary, f"{key}_ms"), COLUMNS)
        table.add_row(label, *cells, unit)
    return table


def _facts_table(rows: Sequence[tuple[str, str]]) -> RenderableType:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    for what, how_much in rows:
        table.add_row(what, Text(how_much))
    return Padding(table, (0, 0, 1, 0))
