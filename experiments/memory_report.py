"""`schedlab memory`: a memory plan as a table or as JSON, each share with how it was counted and its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from backends.sim.specs.hardware import find_hardware
from backends.sim.specs.models import find_model
from backends.sim.specs.shape import ModelShape
from experiments.memory import about_snapshots, plan_for, scheduler_for
from experiments.options import ReplayOptions, options_from
from schedlab.config import SchedulerConfig
from schedlab.errors import UsageError
from schedlab.memory.reserve import KV_FLOOR_TOKENS, MemoryPlan, gib
from schedlab.memory.workspace import GRAPH_KERNEL_BYTES, LARGEST_CAPTURED_ROWS

if TYPE_CHECKING:
    from rich.console import Console

_SOURCES = {
    "weights": "shape of the model in 16 bit",
    "activations": "this project's count of what is alive in the widest layer or at the logits",
    "sequence state": "float32 matrices unless the model's file says otherwise, convolution inputs in 16 bit",
    "state snapshots": f"as many as asked for that leave KV {KV_FLOOR_TOKENS:,} tokens a seat (Metrale Engine's floor)",
    "captured graphs": f"{GRAPH_KERNEL_BYTES:,} bytes per kernel and captured batch size up to {LARGEST_CAPTURED_ROWS} "
    "rows: a log of vLLM pull request 11349, 0.21 GiB for 35 graphs of Llama-3.2-1B; as there, in the share kept back",
    "device context": "ai-dynamo/aiconfigurator systems/*.yaml, 551 MB",
    "kept back": "vLLM's default leaves 10 % unused",
    "KV blocks": "keys and values of all layers that attend; a window frees none of its layers' blocks",
    "unused": "less than one block",
}


def memory_plan(
    given: Mapping[str, Any], *, max_num_seqs: int | None = None, snapshot_slots: int | None = None
) -> dict[str, Any]:
    """The plan of a replay with these options as JSON values; `given` is as for `options_from`.

    *max_num_seqs* and *snapshot_slots* stand for `--set` of the same name.

    Raises:
        UsageError: an option is wrong, or not one sequence of `max_model_len` fits.
    """
    short = {"max_num_seqs": max_num_seqs, "snapshot_slots": snapshot_slots}
    options = options_from(_with_settings(given, short))
    hardware, model = find_hardware(options.hardware), find_model(options.model)
    plan = plan_for(options, hardware, model)
    scheduler = scheduler_for(options, model, plan, plan.num_blocks)[0]
    how = _how(options, model, scheduler, plan)
    return {
        "model": model.name,
        "hardware": hardware.name,
        "tp": options.tp,
        "preset": options.preset,
        "utilisation_percent": options.utilisation_percent,
        "max_num_seqs": scheduler.max_num_seqs,
        "max_num_batched_tokens": scheduler.max_num_batched_tokens,
        **asdict(plan),
        "owners": [
            {"owner": name, "bytes": amount, "how": how[name], "source": _SOURCES[name]}
            for name, amount in plan.owners.items()
        ],
        "notes": _notes(options, model, scheduler),
    }


def print_plan(console: Console, document: Mapping[str, Any]) -> None:
    """The plan as a table, with the pool below it and the sources at the end."""
    from rich.table import Table

    table = Table("owner", box=None, pad_edge=False)
    for name in ("bytes", "GiB", "share"):
        table.add_column(name, justify="right")
    table.add_column("how", overflow="fold")
    total = document["total_bytes"]
    rows = [(one["owner"], one["bytes"], one["how"]) for one in document["owners"] if one["bytes"]]
    for owner, amount, how in [*rows, ("total", total, "what the driver reports")]:
        table.add_row(owner, f"{amount:,}", f"{amount / 2**30:.2f}", f"{100 * amount / total:.1f} %", how)
    console.print(
        f"{document['model']} on {document['tp']} x {document['hardware']}, preset {document['preset']}: one GPU",
        markup=False,
    )
    console.print(table)
    console.print(_pool(document), markup=False)
    for note in document["notes"]:
        console.print(f"note: {note}", markup=False)
    for one in document["owners"]:
        if one["bytes"]:
            console.print(f"source: {one['owner']}: {one['source']}", markup=False)


def _with_settings(given: Mapping[str, Any], short: Mapping[str, int | None]) -> dict[str, Any]:
    settings = dict(given.get("set") or {})
    for name, value in short.items():
        if value is not None and name in settings:
            raise UsageError(f"--{name.replace('_', '-')} and --set {name} are the same; give one of them")
        if value is not None:
            settings[name] = str(value)
    return {**given, "set": settings}


def _how(options: ReplayOptions, model: ModelShape, scheduler: SchedulerConfig, plan: MemoryPlan) -> dict[str, str]:
    tokens, share = f"{scheduler.max_num_batched_tokens:,}", "" if options.tp == 1 else f" over {options.tp} GPUs"
    state = f"{plan.state_bytes_per_seq:,} bytes of recurrent and convolution state"
    return {
        "weights": f"{model.parameters:,} parameters x {model.dtype_bytes} bytes{share}",
        "activations": f"a step of {tokens} tokens, logits of {scheduler.max_num_seqs:,} sequences",
        "sequence state": f"{plan.state_slots:,} slots x {state}",
        "state snapshots": f"{plan.snapshot_slots:,} slots x {state}",
        "captured graphs": f"decode steps of up to {min(scheduler.max_num_seqs, LARGEST_CAPTURED_ROWS):,} rows",
        "device context": "context and library workspaces",
        "kept back": f"{100 - options.utilisation_percent} % of the memory, less the graphs",
        "KV blocks": f"{plan.num_blocks:,} x {plan.block_size} tokens x {plan.block_bytes // plan.block_size:,} bytes",
        "unused": "the rest of a block",
    }


def _notes(options: ReplayOptions, model: ModelShape, scheduler: SchedulerConfig) -> list[str]:
    if model.recurrent is None:
        return []
    return list(about_snapshots(model, scheduler, scheduler_for(options, model)[0].snapshot_slots))


def _pool(document: Mapping[str, Any]) -> str:
    return (
        f"{document['num_blocks']:,} blocks hold {document['kv_tokens']:,} tokens; one sequence of max_model_len "
        f"{document['max_model_len']:,} takes {document['blocks_per_sequence']:,} blocks "
        f"({gib(document['blocks_per_sequence'] * document['block_bytes'])}), so {document['full_sequences']:,} fit "
        f"({document['max_num_seqs']:,} seats)"
    )
