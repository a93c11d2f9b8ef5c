"""Commands that need nothing but a simulated device: replay, memory, check."""

from __future__ import annotations

from pathlib import Path

import typer

from schedlab.cli.codes import DEFECT_EXIT, INTERRUPT_EXIT
from schedlab.cli.options import (
    BLOCK_SIZE,
    CHECK,
    COST,
    COST_SET,
    EVENTS,
    FAULTS,
    HARDWARE,
    LIMIT,
    MAX_TOKENS,
    MEMORY_PERCENT,
    MODEL,
    NO_LEAP,
    NUM_BLOCKS,
    OUT,
    PERFETTO_WINDOW,
    POLICY,
    PRESET,
    RATE_SCALE,
    SEED,
    SET,
    SLO,
    TP,
    TRACE,
)


def replay(
    trace: str = TRACE,
    model: str = MODEL,
    hardware: str = HARDWARE,
    tp: int = TP,
    preset: str = PRESET,
    policy: str = POLICY,
    set_: list[str] = SET,
    cost: str = COST,
    cost_set: list[str] = COST_SET,
    memory_percent: int = MEMORY_PERCENT,
    num_blocks: int = NUM_BLOCKS,
    block_size: int = BLOCK_SIZE,
    max_tokens: str = MAX_TOKENS,
    rate_scale: float = RATE_SCALE,
    limit: int = LIMIT,
    seed: int = SEED,
    slo: str = SLO,
    faults: Path = FAULTS,
    out: Path = OUT,
    events: bool = EVENTS,
    check: str = CHECK,
    no_leap: bool = NO_LEAP,
    perfetto_window: str = PERFETTO_WINDOW,
) -> None:
    """Replay a production trace on a simulated GPU and report how it went."""
    from experiments.terminal import replay_on_terminal
    from experiments.values import pairs

    options = {
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
    try:
        partial = replay_on_terminal(
            options, out=out, events=events, check=check, leap=not no_leap, perfetto_window=perfetto_window
        )
    except KeyboardInterrupt:
        raise typer.Abort from None
    if partial:
        raise typer.Exit(INTERRUPT_EXIT)


def memory(
    model: str = MODEL,
    hardware: str = HARDWARE,
    tp: int = TP,
    preset: str = PRESET,
    policy: str = POLICY,
    set_: list[str] = typer.Option(
        None, "--set", metavar="KEY=VALUE", help="A budget or rule, such as max_model_len or block_size; repeatable."
    ),
    memory_percent: int = MEMORY_PERCENT,
    max_num_seqs: int = typer.Option(None, help="Seats; short for --set max_num_seqs.", show_default="the preset's"),
    snapshot_slots: int = typer.Option(
        None,
        help="State snapshots of a hybrid model, as far as KV keeps its floor; short for --set snapshot_slots.",
        show_default="16",
    ),
    as_json: bool = typer.Option(False, "--json", metavar="", help="Print JSON instead of a table."),
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


def check(
    policy: str = typer.Argument(..., help="fifo, slai, priority, an installed one, module:Class or file.py:Class."),
    examples: int = typer.Option(None, help="Stop after so many.", show_default="1000"),
    time: str = typer.Option(None, metavar="60s", help="Stop after so long instead."),
    seed: int = typer.Option(0, help="Another one tries other examples."),
    out: Path = typer.Option(None, help="Where a failure is saved.", show_default="FAIL-<policy>.json"),
) -> None:
    """Try to make a policy break a law; on failure, save and print the smallest example that was found."""
    from experiments.check_command import check_on_terminal

    try:
        held = check_on_terminal(policy, examples, time, seed, out)
    except KeyboardInterrupt:
        raise typer.Abort from None
    if not held:
        raise typer.Exit(DEFECT_EXIT)
