"""Random fault plans in random small loads: no hang, every request ends once, the laws hold, leap equals step."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from hypothesis import given, note
from hypothesis import strategies as st

from experiments.config import dump
from experiments.fault_reach import links_of
from experiments.options import options_from
from experiments.replay import RunOptions, run
from experiments.setup import prepare
from schedlab.config import PreemptionMode, SchedulerConfig
from schedlab.device import CopyKind
from tests.property.effort import examples
from tests.unit.replay_helpers import HEADER, write_trace

MS = 1_000_000
seeds = st.integers(0, 1000)
links = st.lists(st.sampled_from([kind.value for kind in CopyKind]), min_size=1, max_size=4, unique=True)


def times(most_ms: int = 1500) -> st.SearchStrategy[str]:
    return st.integers(0, most_ms).map(lambda ms: f"{ms}ms")


@st.composite
def windows(draw: st.DrawFn) -> dict[str, str]:
    begin = draw(st.integers(0, 1000))
    return {"from": f"{begin}ms", "to": f"{begin + draw(st.integers(1, 800))}ms"}


def numbers(key: str, most: int) -> st.SearchStrategy[dict[str, Any]]:
    listed = st.lists(st.integers(1, most), min_size=1, max_size=4).map(lambda found: {key: found})
    by_chance = st.fixed_dictionaries({"chance": st.sampled_from([0.01, 0.1, 0.5, 1.0]), "seed": seeds})
    return listed | by_chance


factors = st.sampled_from([1.001, 1.5, 3, 40])
TABLES: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "step_failure": st.fixed_dictionaries({"steps": st.lists(st.integers(1, 150), min_size=1, max_size=4)})
    | st.fixed_dictionaries({"chance": st.sampled_from([0.005, 0.05]), "seed": seeds})
    | st.fixed_dictionaries({"at": times()}),
    "device_loss": st.fixed_dictionaries({"at": times()}) | st.fixed_dictionaries({"step": st.integers(1, 200)}),
    "slow_steps": st.builds(
        lambda factor, which: {"factor": factor, **which}, factors, numbers("steps", 150) | windows()
    ),
    "slow_links": st.builds(lambda factor, window: {"factor": factor, **window}, factors, windows()),
    "copy_failure": st.builds(lambda which, on: {**which, "links": on}, numbers("copies", 12), links),
    "disk_full": windows(),
    "departure": st.fixed_dictionaries({"request": st.integers(0, 12), "at": times()})
    | st.fixed_dictionaries({"chance": st.sampled_from([0.2, 1.0]), "seed": seeds, "after": st.just(["0ms", "300ms"])}),
}
plans = st.fixed_dictionaries(
    {}, optional={name: st.lists(table, min_size=1, max_size=2) for name, table in TABLES.items()}
)
SWAPS = (
    {"preemption": "recompute"},
    {"preemption": "host", "swap_host_gib": 1, "prefix_cache": False},
    {"preemption": "recompute", "window_blocks": 3, "swap_disk_gib": 1},
    {"preemption": "host", "swap_host_gib": 1},
    {"preemption": "disk", "swap_disk_gib": 1},
    {"preemption": "cheapest", "swap_disk_gib": 1, "swap_host_gib": 1},
)
# Prompts of one group begin alike, in blocks of 16 tokens.
rows = st.lists(
    st.tuples(st.integers(0, 300), st.integers(1, 90), st.integers(0, 90), st.integers(0, 2)), min_size=1, max_size=12
)


def trace_of(folder: Path, drawn: list[tuple[int, int, int, int]]) -> Path:
    lines = []
    for arrival_ms, prompt, output, group in sorted(drawn):
        ids = " ".join(str(100 * group + block) for block in range(prompt // 16)) or "-"
        lines.append((arrival_ms * MS, prompt, output, ids, 16))
    return write_trace(folder / "t.csv", lines, f"{HEADER},hash_ids,hash_block_tokens")


def met_by(plan: dict[str, Any], swap: dict[str, Any], num_rows: int) -> dict[str, Any]:
    """The faults of a plan that the run can meet; others are refused, each as `test_faults_plan` says."""
    used = set(links_of(SchedulerConfig(**{**swap, "preemption": PreemptionMode(swap["preemption"])})))

    def can_be_met(name: str, table: dict[str, Any]) -> bool:
        if name in ("slow_links", "copy_failure"):
            return not used.isdisjoint(table.get("links", CopyKind))
        if name == "disk_full":
            return CopyKind.HOST_TO_DISK in used
        return table.get("request", 0) < num_rows

    kept = {name: [table for table in tables if can_be_met(name, table)] for name, tables in plan.items()}
    return {name: tables for name, tables in kept.items() if tables}


class Ran(NamedTuple):
    """A run's requests by id, its faults, and the bytes of everything that repeats."""

    requests: pd.DataFrame
    faults: dict[str, Any]
    written: tuple[bytes, ...]


def run_checked(options: dict[str, Any], folder: Path, *, leap: bool = True) -> Ran:
    result = run(prepare(options_from(options)), RunOptions(leap=leap, check=True, events_path=folder / "events.jsonl"))
    result.observers.requests.write_parquet(folder / "requests.parquet")
    result.observers.timeline.write_parquet(folder / "timeline.parquet")
    files = [(folder / name).read_bytes() for name in ("events.jsonl", "requests.parquet", "timeline.parquet")]
    faults = result.summary.get("faults", {})
    return Ran(result.requests.set_index("request_id"), faults, (dump(result.summary), *files))


@given(rows, plans, st.sampled_from(SWAPS), st.sampled_from([13, 24, 60]), st.sampled_from(["fifo", "priority"]))
@examples(80)
def test_no_plan_of_faults_breaks_a_law(
    drawn: list[tuple[int, int, int, int]], plan: dict[str, Any], swap: dict[str, Any], num_blocks: int, policy: str
) -> None:
    plan = met_by(plan, swap, len(drawn))
    note(f"{drawn} {plan} {swap}")
    with tempfile.TemporaryDirectory() as name:
        folder, settings = Path(name), {**swap, "max_num_seqs": 5}
        options = {"num_blocks": num_blocks, "policy": policy, "set": settings, "cost": "constant"}
        options["trace"] = trace_of(folder, drawn)
        calm = run_checked(options, folder).requests
        found = run_checked({**options, "faults": plan}, folder)
        stepped = run_checked({**options, "faults": plan}, folder, leap=False)
    assert found.written == stepped.written
    table = found.requests
    assert table.index.is_unique
    assert len(table) == len(drawn) or found.faults["device_lost_s"] is not None
    survivors = table[table["finish_reason"].isin(["stop", "length"])]
    expected = calm.loc[survivors.index, ["finish_reason", "output_tokens"]]
    served = expected["finish_reason"] != "error"
    assert survivors[["finish_reason", "output_tokens"]][served].equals(expected[served])
