"""What the report says: tiles, tables and pictures, put into the template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from reports.html.figures import latency_figures, length_figure, time_line_figures
from reports.reduce import COMPLETED, bin_timeline, latencies_s, pool_blocks
from reports.table import LATENCIES, budgets, facts, headline
from reports.units import (
    DASH,
    brief,
    clean,
    duration,
    flatten,
    is_number,
    latency_row,
    milliseconds,
    number,
    percent,
    rate,
    section,
    times,
    title_of,
)

if TYPE_CHECKING:
    import pandas as pd
    from jinja2 import Template

COLUMNS = ("mean", "p50", "p90", "p95", "p99", "max")
TARGET_NAMES = {**dict(LATENCIES), "itl": "ITL (share of gaps, not of requests)"}
MOST_ROWS = 400


def render(
    requests: pd.DataFrame,
    timeline: pd.DataFrame,
    summary: Mapping[str, Any],
    config: Mapping[str, Any],
    run: Mapping[str, Any],
    notes: Sequence[str],
) -> str:
    """The page as text. Arguments as for `write_report`."""
    latencies, line = latencies_s(requests), bin_timeline(timeline)
    targets = {key: value for key, value in section(section(summary, "goodput"), "targets").items() if is_number(value)}
    return _template().render(
        title=headline(config),
        trace=title_of(config, "trace"),
        budgets=budgets(config),
        notes=[clean(note) for note in notes][:MOST_ROWS],
        tiles=tiles(summary, run),
        latency_columns=COLUMNS,
        latency_rows=latency_rows(summary),
        attainment=attainment(summary),
        goodput=goodput_row(summary),
        endings=endings(summary),
        facts=facts(summary, run),
        cdfs=latency_figures(latencies, summary, targets),
        lines=time_line_figures(line, pool_blocks(summary, config)),
        length=length_figure(requests, latencies["ttft"]),
        config=_rows(config),
        run=_rows(run),
    )


def tiles(summary: Mapping[str, Any], run: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """The key figures, as (what, figure, small print)."""
    ended, rates, kv_use = (section(summary, key) for key in ("requests", "throughput", "kv_use"))
    reasons = section(ended, "finished")
    completed = sum(reasons.get(reason, 0) for reason in COMPLETED) if reasons else None
    shown = [
        ("Completed", number(completed), f"of {number(ended.get('arrived'))} requests"),
        *(_latency_tile(summary, key, label) for key, label in LATENCIES if key in ("ttft", "tpot", "e2e")),
        (
            "Output tokens/s",
            number(rates.get("output_tokens_per_s")),
            rate(rates.get("requests_per_s"), "requests"),
        ),
    ]
    if row := goodput_row(summary):
        good = rate(section(summary, "goodput").get("requests_per_s"), "requests")
        shown.append(("Goodput", row[1][0], good))
    if kv_use:
        shown.append(("KV use, peak", percent(kv_use.get("peak")), f"mean {percent(kv_use.get('mean'))}"))
    if "speedup" in run:
        shown.append(("Simulated", duration(summary.get("duration_s")), f"{times(run['speedup'])} real time"))
    else:
        shown.append(("Time", duration(summary.get("duration_s")), "by the client's clock"))
    return shown


def latency_rows(summary: Mapping[str, Any]) -> list[tuple[str, str, list[str], str]]:
    """The latency table, as (name, unit, cells, number of values)."""
    rows = []
    for key, label in LATENCIES:
        record = section(summary, f"{key}_ms")
        unit, cells = latency_row(record, COLUMNS)
        rows.append((label, unit, cells, number(record.get("count"))))
    return rows


def attainment(summary: Mapping[str, Any]) -> list[tuple[str, str, tuple[str, float]]]:
    """The SLO table, as (latency, target, share of requests that met it)."""
    record = section(summary, "goodput")
    met = section(record, "attainment")
    return [
        (TARGET_NAMES.get(key, clean(key)), brief(duration(target)), share_cell(met.get(key)))
        for key, target in section(record, "targets").items()
    ]


def goodput_row(summary: Mapping[str, Any]) -> tuple[str, tuple[str, float]] | None:
    """The last row of the SLO table, as (what, share of requests); None where no target is one of requests."""
    record = section(summary, "goodput")
    targets = section(record, "targets")
    if not record or list(targets) == ["itl"]:
        return None
    what = "all of them but ITL, in one request (goodput)" if "itl" in targets else "all of them (goodput)"
    return what, share_cell(record.get("share"))


def endings(summary: Mapping[str, Any]) -> list[tuple[str, str, tuple[str, float]]]:
    """Requests by the reason of their end, as (reason, count, share of all that arrived)."""
    ended = section(summary, "requests")
    reasons = {**section(ended, "finished"), **{key: ended[key] for key in ("refused", "unfinished") if key in ended}}
    counts = {clean(reason): count for reason, count in reasons.items() if is_number(count) and count > 0}
    total = ended.get("arrived") if is_number(ended.get("arrived")) else sum(counts.values())
    return [(reason, number(count), share_cell(count / total if total else None)) for reason, count in counts.items()]


def share_cell(share: Any) -> tuple[str, float]:
    """A share as (text, width of its bar in percent)."""
    return percent(share), round(100 * min(max(share, 0.0), 1.0), 2) if is_number(share) else 0.0


def _latency_tile(summary: Mapping[str, Any], key: str, label: str) -> tuple[str, str, str]:
    record = section(summary, f"{key}_ms")
    return f"{label}, median", milliseconds(record.get("p50")), f"p99 {milliseconds(record.get('p99'))}"


def _rows(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    rows = list(flatten(record))
    left_out = len(rows) - MOST_ROWS
    return rows if left_out <= 0 else [*rows[:MOST_ROWS], (DASH, f"{left_out} more in config.json")]


def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(files("reports.html").joinpath("report.html.jinja").read_text(encoding="utf-8"))
