"""`schedlab trace`: look into traces, convert them, make them, fetch the public ones."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from traces.options import ReadOptions
    from traces.trace import Trace

app = typer.Typer(no_args_is_help=True, help="Look into traces, convert them, make them, fetch the public ones.")

_TRACE = typer.Argument(help="A trace file or folder, - for standard input, or a shipped model's name.")
_OUT = typer.Argument(help="The file to write: .csv or .jsonl, with .gz behind it or not.")
_STRICT = typer.Option(False, "--strict", metavar="", help="Refuse rows out of order instead of sorting them.")
_SHIFT = typer.Option(
    False, "--shift-negative", metavar="", help="Start the trace at 0 where negative stamps are refused otherwise."
)
_ROWS = typer.Option(None, help="Rows of a model (default: as many as its original).")
_SEED = typer.Option(None, help="Seed of everything that is drawn (default 0).")
_RATE = typer.Option(None, help="ServeGen: requests per second of all clients together (default 10).")
_DURATION_S = typer.Option(None, "--duration", help="ServeGen: seconds to draw (default 600).")


@app.command()
def inspect(
    trace: str = _TRACE,
    as_json: bool = typer.Option(False, "--json", metavar="", help="Print JSON instead of tables."),
    strict: bool = _STRICT,
    shift_negative: bool = _SHIFT,
    rows: int | None = _ROWS,
    seed: int | None = _SEED,
    rate: float | None = _RATE,
    duration_s: float | None = _DURATION_S,
) -> None:
    """Say what a trace holds: rows kept and dropped, quantiles, burstiness, prefix sharing."""
    from traces.display import patience, show_summary, watched
    from traces.options import ReadOptions
    from traces.summary import summarise

    options = ReadOptions(strict, shift_negative, rows=rows, seed=seed or 0, rate=rate)
    [opened] = _opened([trace], options, duration_s, has_seed=seed is not None)
    with patience("reading"):
        opened.scan()
    summary = summarise(opened, watched)
    if as_json:
        typer.echo(json.dumps(summary.as_dict(), indent=2, allow_nan=False))
    else:
        show_summary(summary)


@app.command()
def convert(
    trace: str = _TRACE,
    out: Path = _OUT,
    merge: list[str] = typer.Option([], help="Another trace to merge with; may be given again."),
    from_s: float | None = typer.Option(None, help="Keep what arrives from this second on."),
    to_s: float | None = typer.Option(None, help="Keep what arrives before this second."),
    first_row: int = typer.Option(0, help="Begin with this row, counted from 0."),
    limit: int | None = typer.Option(None, help="Keep so many rows."),
    rate_scale: float | None = typer.Option(None, help="Arrivals so many times as dense."),
    cap_prompt: int | None = typer.Option(None, help="Cut prompts to so many tokens."),
    cap_output: int | None = typer.Option(None, help="Cut outputs to so many tokens."),
    resample: int | None = typer.Option(None, help="Draw so many rows with replacement."),
    anonymise: bool = typer.Option(
        False, "--anonymise", metavar="", help="Number sessions, tenants and block ids anew."
    ),
    strict: bool = _STRICT,
    shift_negative: bool = _SHIFT,
    rows: int | None = _ROWS,
    seed: int | None = _SEED,
    rate: float | None = _RATE,
    duration_s: float | None = _DURATION_S,
) -> None:
    """Write a trace in schedlab's own format. Transforms apply in the order of the options below."""
    from traces import transforms
    from traces.options import ReadOptions

    options = ReadOptions(strict, shift_negative, rows=rows, seed=seed or 0, rate=rate)
    _need_new(out)
    opened = _opened([trace, *merge], options, duration_s, has_seed=seed is not None and resample is None)
    result = transforms.merge(opened) if merge else opened[0]
    if from_s is not None or to_s is not None:
        result = transforms.slice_time(
            result, _ns("--from-s", from_s or 0.0), *([] if to_s is None else [_ns("--to-s", to_s)])
        )
    if first_row:
        result = transforms.slice_rows(result, first_row)
    if limit is not None:
        result = transforms.limit(result, limit)
    if rate_scale is not None:
        result = transforms.scale_rate(result, rate_scale)
    if cap_prompt is not None or cap_output is not None:
        result = transforms.cap(result, cap_prompt, cap_output)
    if resample is not None:
        result = transforms.resample(result, resample, seed or 0)
    _write(transforms.anonymise(result) if anonymise else result, out)


@app.command()
def generate(
    out: Path = _OUT,
    arrivals: str = typer.Option(
        "poisson",
        help="poisson, gamma:CV, weibull:CV, onoff:ON_S,OFF_S, diurnal:AMPLITUDE[,PERIOD_S], "
        "clients:N,SKEW,CV, or a model's name.",
    ),
    lengths: str = typer.Option(
        "azure-conv-like",
        help="fixed:P,O, uniform:P1-P2,O1-O2, "
        "lognormal:PMEDIAN,PSIGMA,OMEDIAN,OSIGMA[,CORRELATION], a model's name, or a file to draw from.",
    ),
    rows: int = typer.Option(..., help="Requests to draw."),
    rate: float | None = typer.Option(None, help="Mean arrivals per second."),
    seed: int | None = _SEED,
) -> None:
    """Draw a trace from an arrival process and a length model."""
    from traces.generators.spec import generate as draw

    _need_new(out)
    _write(draw(arrivals, lengths, rows, seed or 0, rate), out)


@app.command()
def fetch(
    name: str = typer.Argument("", help="A public trace; --list shows them."),
    out: Path = typer.Option(Path(), help="The folder to put it in."),
    show: bool = typer.Option(
        False, "--list", metavar="", help="List the public traces, where they are and their licences."
    ),
) -> None:
    """Download a public trace from its own repository and check its SHA-256."""
    from schedlab.errors import UsageError
    from traces.catalogue import originals
    from traces.display import show_catalogue, watched
    from traces.fetch import fetch as bring
    from traces.fetch import target_of

    if show and (name or out != Path()):
        raise UsageError("fetch: --list fetches nothing; leave out the name and --out, or leave out --list")
    if show:
        show_catalogue()
        return
    if not name:
        raise UsageError("fetch: name a public trace; schedlab trace fetch --list shows them")
    files = originals(name)
    target = target_of(files, out)
    for original in watched(files, len(files), "files"):
        bring(original, target if len(files) > 1 else out)
    repository = files[0].repository
    typer.echo(f"{target}: {repository.licence}, {repository.credit}")


def _opened(sources: list[str], options: ReadOptions, duration_s: float | None, *, has_seed: bool) -> list[Trace]:
    """Open every source; UsageError for a flag that none of them heeds."""
    from schedlab.errors import UsageError
    from traces.open import open_trace

    if duration_s is not None:
        options = replace(options, duration_s=duration_s)
    opened = [open_trace(source, options=options) for source in sources]
    formats = [trace.format for trace in opened]
    recorded = {one for one in formats if one not in ("model", "servegen")}
    for flag, is_given, is_heeded, what in (
        ("--rows", options.rows is not None, "model" in formats, "is no shipped model"),
        ("--rate", options.rate is not None, "servegen" in formats, "holds no ServeGen clients"),
        ("--duration", duration_s is not None, "servegen" in formats, "holds no ServeGen clients"),
        ("--seed", has_seed, len(recorded) < len(set(formats)), "is read as it stands and nothing is drawn"),
        ("--strict", options.strict, bool(recorded), "is drawn in order"),
        ("--shift-negative", options.shift_negative, bool(recorded), "is drawn from 0 on"),
    ):
        if is_given and not is_heeded:
            raise UsageError(f"{flag} has no effect: {', '.join(sources)} {what}; leave it out")
    return opened


def _ns(flag: str, seconds: float) -> int:
    from schedlab.errors import UsageError

    if not 0 <= seconds < 4e9:
        raise UsageError(f"{flag} is {seconds:g}; give seconds from 0 up to 4e9")
    return round(seconds * 1e9)


def _need_new(out: Path) -> None:
    """Like every output of schedlab's, a trace replaces nothing."""
    from schedlab.errors import UsageError

    if os.path.lexists(out):
        raise UsageError(f"{out}: exists already; give another name")


def _need_rows(trace: Trace) -> None:
    """A trace without rows is of no use to anybody who reads it."""
    from schedlab.errors import UsageError

    if not trace.scan().rows:
        lineage, rows = trace.lineage, trace.report.rows_read
        done = f"{', then '.join(lineage.steps)} leaves nothing of it" if lineage.steps else "there is nothing to write"
        raise UsageError(f"{lineage.name}: {rows:,} rows were read, and {done}; see schedlab trace inspect")


def _write(trace: Trace, out: Path) -> None:
    """Write a trace and say what it holds."""
    from traces.display import patience, watched
    from traces.words import counted, printable
    from traces.writers import write_trace

    with patience("reading"):
        _need_rows(trace)
    rows = write_trace(trace, out, watched)
    report = trace.report
    title = replace(trace.lineage, converted=True).title(trace.is_model)
    read = f"{report.rows_read:,} read, {report.rows_dropped:,} dropped"
    typer.echo(printable(f"{out}: {counted(rows, 'row')}, {title} ({read})"))
    for reason, dropped in report.dropped.items():
        typer.echo(f"dropped: {reason}: {dropped:,}")
    for note in report.notes:
        typer.echo(printable(f"note: {note}"))
