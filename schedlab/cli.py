"""The command line. Only what `--help` needs is imported at the start."""

from __future__ import annotations

import io
import signal
import sys
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import typer

from schedlab.errors import InvariantViolation, SchedlabError, UsageError
from traces.commands import app as trace_app

CHECKS = ("laws", "shadow")
USAGE_EXIT, DEFECT_EXIT, INTERRUPT_EXIT = 2, 1, 130
# The base of every complaint about flags, whichever package the installed typer takes it from.
FlagError: Any = typer.BadParameter.__mro__[2]

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    help="A lab for LLM-inference schedulers: one scheduler, any device.",
)
app.add_typer(trace_app, name="trace")


_TRACE = typer.Argument(
    None,
    help="A trace file or folder, - for standard input, a shipped model's name (default azure-conv-like), or the "
    "config.json of an earlier run to repeat it.",
    show_default=False,
)
_TRACE_OF_BENCH = typer.Argument(
    None, help="A trace as for replay, or a shipped model's name (default azure-conv-like).", show_default=False
)
_MODEL = typer.Option(
    None, help="A model's name (--model list: the known ones) or a Hugging Face config.json.", show_default="llama-3-8b"
)
_HARDWARE = typer.Option(None, help="A GPU's name (--hardware list: the known ones).", show_default="h100")
_TP = typer.Option(None, help="GPUs that share the model.", show_default="1")
_PRESET = typer.Option(None, help="An engine's scheduling: vllm, met, sarathi, orca.", show_default="vllm")
_POLICY = typer.Option(
    None, help="fifo, slai, priority, an installed one, module:Class or file.py:Class.", show_default="the preset's"
)
_SET = typer.Option(
    None, "--set", metavar="KEY=VALUE", help="A budget or rule of the scheduler or its policy; repeatable."
)
_COST = typer.Option(None, help="Cost model: roofline or constant.", show_default="roofline")
_COST_SET = typer.Option(None, metavar="KEY=VALUE", help="A parameter of the cost model; repeatable.")
_MEMORY_PERCENT = typer.Option(None, help="Percent of GPU memory that may be used.", show_default="90")
_NUM_BLOCKS = typer.Option(None, help="KV blocks of the pool, fewer than fit.", show_default="all that fit")
_BLOCK_SIZE = typer.Option(None, help="Tokens a block; short for --set block_size.", show_default="the preset's")
_MAX_TOKENS = typer.Option(
    None,
    metavar="N|auto|oracle",
    help="Output limit of requests that have none of their own. auto: the smallest power of two that covers the "
    "trace; oracle: the exact lengths.",
    show_default="auto",
)
_RATE_SCALE = typer.Option(None, help="Arrivals this many times as dense.", show_default="1")
_LIMIT = typer.Option(None, help="Only the first rows; of a shipped model, so many rows.", show_default="all")
_SEED = typer.Option(None, help="Of what a modelled trace draws.", show_default="0")
_SLO = typer.Option(None, metavar="ttft=2s,tpot=100ms", help="Latency targets: ttft, tpot, itl, e2e.")
_FAULTS = typer.Option(
    None,
    metavar="PLAN.toml",
    help="Inject failing steps, copies and clients as planned there.",
    show_default="none",
)
_OUT = typer.Option(None, help="Folder of the results.", show_default="a fresh one under runs/")
_EVENTS = typer.Option(False, "--events", metavar="", help="Write every decision to events.jsonl.")
_CHECK = typer.Option(
    None,
    metavar="[=laws|shadow]",
    help="Verify the laws of the run after every tick; shadow: also the contents of every KV block.",
    show_default="laws if only named",
)
_NO_LEAP = typer.Option(False, "--no-leap", metavar="", help="Step every iteration; the same results, slower.")
_PERFETTO_WINDOW = typer.Option(
    None,
    metavar="START-END",
    help="Simulated seconds to show in trace.perfetto.json, like 120-180.",
    show_default="the busiest 60 s",
)
_VERSION = typer.Option(False, "--version", metavar="", help="Print the version and exit.")


@app.callback(invoke_without_command=True)
def _group(context: typer.Context, version: bool = _VERSION) -> None:
    if version:
        from experiments.config import schedlab_version

        typer.echo(f"schedlab {schedlab_version()}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def replay(
    trace: str = _TRACE,
    model: str = _MODEL,
    hardware: str = _HARDWARE,
    tp: int = _TP,
    preset: str = _PRESET,
    policy: str = _POLICY,
    set_: list[str] = _SET,
    cost: str = _COST,
    cost_set: list[str] = _COST_SET,
    memory_percent: int = _MEMORY_PERCENT,
    num_blocks: int = _NUM_BLOCKS,
    block_size: int = _BLOCK_SIZE,
    max_tokens: str = _MAX_TOKENS,
    rate_scale: float = _RATE_SCALE,
    limit: int = _LIMIT,
    seed: int = _SEED,
    slo: str = _SLO,
    faults: Path = _FAULTS,
    out: Path = _OUT,
    events: bool = _EVENTS,
    check: str = _CHECK,
    no_leap: bool = _NO_LEAP,
    perfetto_window: str = _PERFETTO_WINDOW,
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


@app.command()
def memory(
    model: str = _MODEL,
    hardware: str = _HARDWARE,
    tp: int = _TP,
    preset: str = _PRESET,
    policy: str = _POLICY,
    set_: list[str] = typer.Option(
        None, "--set", metavar="KEY=VALUE", help="A budget or rule, such as max_model_len or block_size; repeatable."
    ),
    memory_percent: int = _MEMORY_PERCENT,
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


@app.command()
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


@app.command()
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
    hardware: str = _HARDWARE,
    tp: int = _TP,
    preset: str = _PRESET,
    policy: str = _POLICY,
    set_: list[str] = _SET,
    cost: str = _COST,
    cost_set: list[str] = _COST_SET,
    memory_percent: int = _MEMORY_PERCENT,
    num_blocks: int = _NUM_BLOCKS,
    block_size: int = _BLOCK_SIZE,
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


@app.command()
def bench(
    url: str = typer.Argument(help="A server that speaks OpenAI's API, like http://127.0.0.1:8000."),
    trace: str = _TRACE_OF_BENCH,
    model: str = typer.Option(None, help="The model to ask for.", show_default="the server's first"),
    api_key: str = typer.Option(None, help="Key to send.", envvar="OPENAI_API_KEY", show_default="none"),
    max_concurrency: int = typer.Option(None, help="Requests in flight; others wait here.", show_default="no limit"),
    timeout: str = typer.Option("10m", help="A request that takes longer has failed."),
    rate_scale: float = _RATE_SCALE,
    limit: int = _LIMIT,
    seed: int = _SEED,
    slo: str = _SLO,
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


@app.command()
def parity(
    trace: str = _TRACE_OF_BENCH,
    model: str = typer.Option(
        None,
        metavar="tiny|demo|PATH",
        help="tiny: seeded random weights; demo: SmolLM2-135M; a config.json: its shape with seeded weights; a folder "
        "or GGUF file.",
        show_default="tiny",
    ),
    device: str = typer.Option("auto", metavar="auto|cuda|cpu", help="What the real side runs on."),
    preset: str = _PRESET,
    policy: str = _POLICY,
    set_: list[str] = _SET,
    num_blocks: int = typer.Option(None, help="KV blocks of both devices.", show_default="1024"),
    block_size: int = _BLOCK_SIZE,
    max_tokens: str = _MAX_TOKENS,
    rate_scale: float = _RATE_SCALE,
    limit: int = _LIMIT,
    seed: int = _SEED,
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


def main() -> None:
    """Run the command and exit: 0 done, 2 bad input, 130 interrupted, 1 a law of the run does not hold."""
    sys.exit(_run())


def _run() -> int:
    # Whoever asks the command to end gets what Ctrl-C gets: nothing half done is left behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        return int(app(_spelt_out(sys.argv[1:]), standalone_mode=False) or 0)
    except FlagError as error:
        return _complain(_explained(error))
    except InvariantViolation as error:
        notes = "".join(f"; {note}" for note in getattr(error, "__notes__", ()))
        return _complain(f"a law of the run does not hold: {error}{notes}", DEFECT_EXIT)
    except SchedlabError as error:
        return _complain(str(error))
    except (typer.Abort, KeyboardInterrupt):
        return _complain("interrupted before the results were complete", INTERRUPT_EXIT)
    except MemoryError:
        return _complain("out of memory; replay fewer rows (--limit), or on a machine with more")
    except OSError as error:
        where = error.filename or "standard output"
        return _complain(f"{where}: {error.strerror or error}; give a place that can be read and written")


def _spelt_out(arguments: list[str]) -> list[str]:
    """A bare `--check` means the laws; what follows it is an argument of its own, unless it names a check.

    Underscores in the names of flags are hyphens.
    """
    spelt: list[str] = []
    for before, given in pairwise(["", *arguments]):
        _refuse_empty(before, given)
        name, equals, value = given.partition("=")
        argument = name.replace("_", "-") + equals + value if name.startswith("--") else given
        if before == "--check" and argument in CHECKS:
            spelt[-1] = f"--check={argument}"
        else:
            spelt.append("--check=laws" if argument == "--check" else argument)
    return spelt


def _refuse_empty(before: str, given: str) -> None:
    """What a shell makes of a variable that is not set names no file, no folder and no policy."""
    name, equals, value = given.partition("=")
    if not given or (name.startswith("--") and equals and not value):
        flag = name or (before if before.startswith("--") else "an argument")
        raise UsageError(f"{flag} is empty; give a value, or leave it out")


def _explained(error: Any) -> str:
    """What is wrong with the flags; for one that does not exist, what its like is called here."""
    from experiments.flag_hints import hint

    advice = hint(getattr(error, "option_name", None) or "")
    return f"{error.format_message()}; {advice}" if advice else str(error.format_message())


def _complain(message: str, code: int = USAGE_EXIT) -> int:
    line = "".join(letter if letter.isprintable() else "\ufffd" for letter in " ".join(message.split()))
    if line:
        with suppress(OSError):
            print(f"schedlab: error: {line}", file=sys.stderr)
    return code
