"""`schedlab trace`: look into traces, convert them, make them, fetch the public ones."""

from __future__ import annotations

import json

import typer

app = typer.Typer(no_args_is_help=True, help="Look into traces, convert them, make them, fetch the public ones.")


@app.callback()
def _group() -> None:
    """Keeps `inspect` a subcommand however many there are."""


@app.command()
def inspect(
    trace: str = typer.Argument(help="A trace file or folder, - for standard input, or a shipped model's name."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of tables."),
    strict: bool = typer.Option(False, help="Refuse rows out of order instead of sorting them."),
    shift_negative: bool = typer.Option(
        False, help="Move the earliest stamp to 0 where negative stamps are refused otherwise."
    ),
) -> None:
    """Say what a trace holds: rows kept and dropped, quantiles, burstiness, prefix sharing."""
    from traces.display import show_summary, watched
    from traces.open import open_trace
    from traces.options import ReadOptions
    from traces.summary import summarise

    summary = summarise(open_trace(trace, options=ReadOptions(strict=strict, shift_negative=shift_negative)), watched)
    if as_json:
        typer.echo(json.dumps(summary.as_dict(), indent=2, allow_nan=False))
    else:
        show_summary(summary)
