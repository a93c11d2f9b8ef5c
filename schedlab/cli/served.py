"""Commands about real devices and servers: serve, bench, parity."""

from __future__ import annotations

from pathlib import Path

import typer

from schedlab.cli.codes import DEFECT_EXIT, INTERRUPT_EXIT
from schedlab.cli.options import (
    BLOCK_SIZE,
    COST,
    COST_SET,
    HARDWARE,
    LIMIT,
    MAX_TOKENS,
    MEMORY_PERCENT,
    NUM_BLOCKS,
    POLICY,
    PRESET,
    RATE_SCALE,
    SEED,
    SET,
    SLO,
    TP,
    TRACE_OF_BENCH,
)


def serve(
    model: str = typer.Argument(
        None,
        help="With --device sim a model's name (list: the known ones) or config.json, else its folder or GGUF file.",
        show_default="the demo model",
    ),
    device: str = typer.Option(
        "auto", metavar="auto|cuda|cpu|sim", help="sim: a modelled GPU in real time, filler text."
    ),
    host: str = typer.Option("127.0.0.1", rich_help_panel="Server", help="Address to listen at."),
    port: int = typer.Option(8000, rich_help_panel="Server", help="0: any that is free."),
    api_key: str = typer.Option(
        None,
        rich_help_panel="Server",
        help="Key that clients must send.",
        envvar="SCHEDLAB_API_KEY",
        show_default="none",
    ),
    served_model_name: str = typer.Option(
        None, rich_help_panel="Server", help="What clients call the model.", show_default="its name"
    ),
    max_queue: int = typer.Option(
        1024, rich_help_panel="Server", help="Requests that may wait beside the running; more get 503."
    ),
    drain: str = typer.Option("30s", rich_help_panel="Server", help="Time for requests in flight after SIGTERM."),
    dtype: str = typer.Option(
        None,
        rich_help_panel="Real model",
        help="float32, bfloat16 or float16, of a real model.",
        show_default="the model's",
    ),
    load_format: str = typer.Option(
        None, metavar="auto|dummy", rich_help_panel="Real model", help="dummy: random weights.", show_default="auto"
    ),
    generation_config: str = typer.Option(
        None,
        metavar="auto|none",
        rich_help_panel="Real model",
        help="auto: sampling that a request does not state is as the model's generation_config.json has it.",
        show_default="auto",
    ),
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
    seed: int = typer.Option(0, help="Of requests that bring no seed of their own."),
    record: Path = typer.Option(
        None,
        metavar="FILE.jsonl",
        rich_help_panel="Server",
        help="Write the traffic as a trace that replay takes.",
        show_default="none",
    ),
) -> None:
    """Serve OpenAI's API: a real model, or a modelled GPU in real time. The scheduler is replay's, flags and all."""
    from experiments.serve.command import ServeOptions
    from experiments.serve.command import serve as run
    from experiments.values import UNITS_NS, duration_ns, pairs

    given = {
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
    }
    drain_s = duration_ns("--drain", drain) / UNITS_NS["s"]
    ended_well = run(
        given,
        ServeOptions(
            device,
            host,
            port,
            api_key,
            served_model_name,
            max_queue,
            drain_s,
            seed,
            dtype,
            load_format,
            generation_config,
            record,
        ),
    )
    if not ended_well:
        raise typer.Exit(DEFECT_EXIT)


def bench(
    url: str = typer.Argument(help="A server that speaks OpenAI's API, like http://127.0.0.1:8000."),
    trace: str = TRACE_OF_BENCH,
    model: str = typer.Option(None, help="The model to ask for.", show_default="the server's first"),
    api_key: str = typer.Option(None, help="Key to send.", envvar="OPENAI_API_KEY", show_default="none"),
    max_concurrency: int = typer.Option(None, help="Requests in flight; others wait here.", show_default="no limit"),
    timeout: str = typer.Option("10m", help="A request that takes longer has failed."),
    rate_scale: float = RATE_SCALE,
    limit: int = LIMIT,
    seed: int = SEED,
    slo: str = SLO,
    out: Path = typer.Option(None, help="Folder of the results; must not exist.", show_default="none"),
) -> None:
    """Send a trace to a server and report how it went, from the client's side: the table and the report of replay."""
    from experiments.load.command import bench as run
    from experiments.values import UNITS_NS, duration_ns, pairs

    given = {
        "trace": trace,
        "rate_scale": rate_scale,
        "limit": limit,
        "seed": seed,
        "slo": pairs("--slo", slo.split(",")) if slo is not None else None,
    }
    timeout_s = duration_ns("--timeout", timeout) / UNITS_NS["s"]
    partial = run(
        url,
        given,
        model=model,
        api_key=api_key,
        max_concurrency=max_concurrency,
        timeout_s=timeout_s,
        out=out,
    )
    if partial:
        raise typer.Exit(INTERRUPT_EXIT)


def parity(
    trace: str = TRACE_OF_BENCH,
    model: str = typer.Option(
        None,
        metavar="tiny|demo|PATH",
        help="tiny: seeded random weights; demo: SmolLM2-135M; a config.json: its shape with seeded weights; a folder "
        "or GGUF file.",
        show_default="tiny",
    ),
    device: str = typer.Option("auto", metavar="auto|cuda|cpu", help="What the real side runs on."),
    preset: str = PRESET,
    policy: str = POLICY,
    set_: list[str] = SET,
    num_blocks: int = typer.Option(None, help="KV blocks of both devices.", show_default="1024"),
    block_size: int = BLOCK_SIZE,
    max_tokens: str = MAX_TOKENS,
    rate_scale: float = RATE_SCALE,
    limit: int = LIMIT,
    seed: int = SEED,
    faults: Path = typer.Option(None, metavar="PLAN.toml", help="Clients that leave.", show_default="none"),
    out: Path = typer.Option(None, help="Folder of both logs; must not exist.", show_default="none"),
) -> None:
    """Show that a real device and the simulated one make the same decisions, byte by byte; exit 1 if not."""
    from experiments.parity.command import parity as run
    from experiments.values import pairs

    given = {
        "trace": trace,
        "preset": preset,
        "policy": policy,
        "set": pairs("--set", set_) if set_ else None,
        "num_blocks": num_blocks,
        "block_size": block_size,
        "max_tokens": max_tokens,
        "rate_scale": rate_scale,
        "limit": limit,
        "seed": seed,
        "faults": faults,
    }
    try:
        is_same = run(given, model=model, device=device, out=out)
    except KeyboardInterrupt:
        raise typer.Abort from None
    if not is_same:
        raise typer.Exit(DEFECT_EXIT)
