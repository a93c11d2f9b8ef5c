"""The command line. Only what `--help` needs is imported at the start."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer

from schedlab.errors import InvariantViolation, SchedlabError
from traces.commands import app as trace_app

USAGE_EXIT, DEFECT_EXIT, INTERRUPT_EXIT = 2, 1, 130
# The base of every complaint about flags, whichever package the installed typer takes it from.
FlagError: Any = typer.BadParameter.__mro__[2]

app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, help="A lab for LLM-inference schedulers: one, any device."
)
app.add_typer(trace_app, name="trace")


@app.callback(invoke_without_command=True)
def _group(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def replay(
    trace: str = typer.Argument(
        None,
        help="A trace file or folder, - for standard input, a shipped model's name (default azure-conv-like), or the "
        "config.json of an earlier run to repeat it.",
        show_default=False,
    ),
    model: str = typer.Option(None, help="A model's name or a Hugging Face config.json.", show_default="llama-3-8b"),
    hardware: str = typer.Option(None, help="A GPU's name.", show_default="h100"),
    tp: int = typer.Option(None, help="GPUs that share the model.", show_default="1"),
    preset: str = typer.Option(None, help="An engine's scheduling: vllm, met, sarathi, orca.", show_default="vllm"),
    policy: str = typer.Option(None, help="fifo, slai, priority, or an installed one.", show_default="the preset's"),
    set_: list[str] = typer.Option(
        None, "--set", metavar="KEY=VALUE", help="A budget or rule of the scheduler or its policy; repeatable."
    ),
    cost: str = typer.Option(None, help="Cost model: roofline or constant.", show_default="roofline"),
    cost_set: list[str] = typer.Option(None, metavar="KEY=VALUE", help="A parameter of the cost model; repeatable."),
    memory_percent: int = typer.Option(None, help="Share of GPU memory that may be used.", show_default="90"),
    num_blocks: int = typer.Option(None, help="KV blocks of the pool, fewer than fit.", show_default="all that fit"),
    block_size: int = typer.Option(
        None, help="Tokens a block; short for --set block_size.", show_default="the preset's"
    ),
    max_tokens: str = typer.Option(
        None,
        metavar="N|auto|oracle",
        help="Output limit of requests that have none of their own. auto: the smallest power of two that covers the "
        "trace; oracle: the exact lengths.",
        show_default="auto",
    ),
    rate_scale: float = typer.Option(None, help="Arrivals this many times as dense.", show_default="1"),
    limit: int = typer.Option(None, help="Only the first rows; of a shipped model, so many rows.", show_default="all"),
    seed: int = typer.Option(None, help="Of a modelled trace.", show_default="0"),
    slo: str = typer.Option(None, metavar="ttft=2s,tpot=100ms", help="Latency targets: ttft, tpot, itl, e2e."),
    faults: Path = typer.Option(
        None,
        metavar="PLAN.toml",
        help="Inject failing steps, copies and clients as planned there.",
        show_default="none",
    ),
    out: Path = typer.Option(None, help="Folder of the results.", show_default="a fresh one under runs/"),
    events: bool = typer.Option(False, "--events", help="Write every decision to events.jsonl."),
    check: str = typer.Option(
        None,
        metavar="[=laws|shadow]",
        help="Verify the laws of the run after every tick; shadow: also the contents of every KV block.",
        show_default="laws if only named",
    ),
    no_leap: bool = typer.Option(False, "--no-leap", help="Step every iteration; the same results, slower."),
    perfetto_window: str = typer.Option(
        None,
        metavar="START-END",
        help="Simulated seconds to show in trace.perfetto.json, like 120-180.",
        show_default="the busiest 60 s",
    ),
) -> None:
    """Replay a production trace on a simulated GPU and report how it went."""
    from experiments.values import pairs

    options: dict[str, Any] = {
        "trace": trace,
        "model": model,
        "hardware": hardware,
        "tp": tp,
        "preset": preset,
        "policy": policy,
        "set": pairs("--set", set_) if set_ else None,
        "cost": cost,
        "cost_set": pairs("--cost-set", cost_set) if cost_set else None,
        "memory_percent": memory_percent,
        "num_blocks": num_blocks,
        "block_size": block_size,
        "max_tokens": max_tokens,
        "rate_scale": rate_scale,
        "limit": limit,
        "seed": seed,
        "slo": pairs("--slo", slo.split(",")) if slo is not None else None,
        "faults": faults,
    }
    from experiments.terminal import replay_on_terminal

    try:
        partial = replay_on_terminal(
            options, out=out, events=events, check=check, leap=not no_leap, perfetto_window=perfetto_window
        )
    except KeyboardInterrupt:
        raise typer.Abort from None
    if partial:
        raise typer.Exit(INTERRUPT_EXIT)


@app.command()
def memory(
    model: str = typer.Option(None, help="A model's name or a Hugging Face config.json.", show_default="llama-3-8b"),
    hardware: str = typer.Option(None, help="A GPU's name.", show_default="h100"),
    tp: int = typer.Option(None, help="GPUs that share the model.", show_default="1"),
    preset: str = typer.Option(None, help="An engine's scheduling: vllm, met, sarathi, orca.", show_default="vllm"),
    policy: str = typer.Option(None, help="fifo, slai, priority, or an installed one.", show_default="the preset's"),
    set_: list[str] = typer.Option(
        None, "--set", metavar="KEY=VALUE", help="A budget or rule, such as max_model_len or block_size; repeatable."
    ),
    memory_percent: int = typer.Option(None, help="Share of GPU memory that may be used.", show_default="90"),
    max_num_seqs: int = typer.Option(None, help="Seats; short for --set max_num_seqs.", show_default="the preset's"),
    snapshot_slots: int = typer.Option(
        None,
        help="State snapshots of a hybrid model, as far as KV keeps its floor; short for --set snapshot_slots.",
        show_default="16",
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table."),
) -> None:
    """Say who owns each byte of a GPU's memory, and how many KV blocks that leaves; a replay plans the same way."""
    from experiments.memory_report import memory_plan, print_plan
    from experiments.values import pairs

    options = {
        "model": model,
        "hardware": hardware,
        "tp": tp,
        "preset": preset,
        "policy": policy,
        "set": pairs("--set", set_) if set_ else None,
        "memory_percent": memory_percent,
    }
    document = memory_plan(options, max_num_seqs=max_num_seqs, snapshot_slots=snapshot_slots)
    if as_json:
        import json

        typer.echo(json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False))
    else:
        from rich.console import Console

        print_plan(Console(highlight=False, soft_wrap=True), document)


def main() -> None:
    """Run the command and exit: 0 done, 2 bad input, 130 interrupted, 1 a law of the run does not hold."""
    sys.exit(_run())


def _run() -> int:
    try:
        return int(app(_spelt_out(sys.argv[1:]), standalone_mode=False) or 0)
    except FlagError as error:
        return _complain(error.format_message())
    except InvariantViolation as error:
        return _complain(f"a law of the run does not hold: {error}", DEFECT_EXIT)
    except SchedlabError as error:
        return _complain(str(error))
    except typer.Abort:
        return _complain("interrupted before the results were complete", INTERRUPT_EXIT)


def _spelt_out(arguments: list[str]) -> list[str]:
    """A bare `--check` means the laws; what follows it is an argument of its own."""
    return ["--check=laws" if argument == "--check" else argument for argument in arguments]


def _complain(message: str, code: int = USAGE_EXIT) -> int:
    line = " ".join(message.split())
    if line:
        print(f"schedlab: error: {line}", file=sys.stderr)
    return code
