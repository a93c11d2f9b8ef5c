"""Arguments and options that several commands have."""

from __future__ import annotations

import typer

TRACE = typer.Argument(
    None,
    help="A trace file or folder, - for standard input, a shipped model's name (default azure-conv-like), or the "
    "config.json of an earlier run to repeat it.",
    show_default=False,
)
TRACE_OF_BENCH = typer.Argument(
    None, help="A trace as for replay, or a shipped model's name (default azure-conv-like).", show_default=False
)
MODEL = typer.Option(
    None, help="A model's name (--model list: the known ones) or a Hugging Face config.json.", show_default="llama-3-8b"
)
HARDWARE = typer.Option(None, help="A GPU's name (--hardware list: the known ones).", show_default="h100")
TP = typer.Option(None, help="GPUs that share the model.", show_default="1")
PRESET = typer.Option(None, help="An engine's scheduling: vllm, met, sarathi, orca.", show_default="vllm")
POLICY = typer.Option(
    None, help="fifo, slai, priority, an installed one, module:Class or file.py:Class.", show_default="the preset's"
)
SET = typer.Option(
    None, "--set", metavar="KEY=VALUE", help="A budget or rule of the scheduler or its policy; repeatable."
)
COST = typer.Option(None, help="Cost model: roofline or constant.", show_default="roofline")
COST_SET = typer.Option(None, metavar="KEY=VALUE", help="A parameter of the cost model; repeatable.")
MEMORY_PERCENT = typer.Option(None, help="Percent of GPU memory that may be used.", show_default="90")
NUM_BLOCKS = typer.Option(None, help="KV blocks of the pool, fewer than fit.", show_default="all that fit")
BLOCK_SIZE = typer.Option(None, help="Tokens a block; short for --set block_size.", show_default="the preset's")
MAX_TOKENS = typer.Option(
    None,
    metavar="N|auto|oracle",
    help="Output limit of requests that have none of their own. auto: the smallest power of two that covers the "
    "trace; oracle: the exact lengths.",
    show_default="auto",
)
RATE_SCALE = typer.Option(None, help="Arrivals this many times as dense.", show_default="1")
LIMIT = typer.Option(None, help="Only the first rows; of a shipped model, so many rows.", show_default="all")
SEED = typer.Option(None, help="Of what a modelled trace draws.", show_default="0")
SLO = typer.Option(None, metavar="ttft=2s,tpot=100ms", help="Latency targets: ttft, tpot, itl, e2e.")
FAULTS = typer.Option(
    None,
    metavar="PLAN.toml",
    help="Inject failing steps, copies and clients as planned there.",
    show_default="none",
)
OUT = typer.Option(None, help="Folder of the results.", show_default="a fresh one under runs/")
EVENTS = typer.Option(False, "--events", metavar="", help="Write every decision to events.jsonl.")
CHECK = typer.Option(
    None,
    metavar="[=laws|shadow]",
    help="Verify the laws of the run after every tick; shadow: also the contents of every KV block.",
    show_default="laws if only named",
)
NO_LEAP = typer.Option(False, "--no-leap", metavar="", help="Step every iteration; the same results, slower.")
PERFETTO_WINDOW = typer.Option(
    None,
    metavar="START-END",
    help="Simulated seconds to show in trace.perfetto.json, like 120-180.",
    show_default="the busiest 60 s",
)
