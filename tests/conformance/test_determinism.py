"""D01 and D02: a log depends on the input and on nothing else.

Sources: sgl-project/sglang#39042 <https://github.com/sgl-project/sglang/issues/39042>, asonnino/mysticeti#260
<https://github.com/asonnino/mysticeti/issues/260>.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from backends.sim.costs.constant import Constant
from schedlab.policies.priority import Priority
from schedlab.policies.view import View
from schedlab.sequence import Sequence
from tests.conformance import harness
from tests.conformance.made import crowd, made_case, some_leave
from tests.conformance.policies import POLICIES

SETUP = {"blocks": 40, "policy": "priority", "parameters": {"evict": True}}
CONFIG = {"max_num_seqs": 12, "max_num_batched_tokens": 96, "victim": "least_priority"}


def write_log(log: Path, count: int, setup: dict[str, Any] | None = None, ids: list[int] | None = None) -> None:
    """The event log of a crowd under pressure: evictions, cancels, chunks."""
    asks = crowd(count, seed=7, ids=ids)
    cancels = some_leave(crowd(count, seed=7), seed=3)
    if ids:
        cancels = tuple(one._replace(request_id=ids[one.request_id]) for one in cancels)
    recorder = harness.run(made_case(asks, setup or SETUP, CONFIG, cancels), leap=True, log=log)
    assert recorder.preempted


class Naps:
    """50 ms of real time at the first call and at every twentieth one after it."""

    def __init__(self) -> None:
        self.num_calls = 0

    def take(self) -> None:
        if self.num_calls % 20 == 0:
            time.sleep(0.05)
        self.num_calls += 1


class Sleepy(Priority):
    """Takes real time over some decisions, which must not be seen."""

    name = "sleepy"
    naps = Naps()

    def admit(self, view: View, sequence: Sequence) -> bool:
        self.naps.take()
        return super().admit(view, sequence)


class SlowToTell(Constant):
    """Takes real time to say how long some steps with chunks last."""

    naps = Naps()

    def step_quanta(self, *arguments: Any) -> int:
        self.naps.take()
        return super().step_quanta(*arguments)


def test_d01_real_time_does_not_get_into_simulated_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_log(tmp_path / "normal.jsonl", 100)
    monkeypatch.setitem(POLICIES, Sleepy.name, Sleepy)
    monkeypatch.setattr(harness, "Constant", SlowToTell)
    write_log(tmp_path / "slow.jsonl", 100, {**SETUP, "policy": "sleepy"})
    assert Sleepy.naps.num_calls > 100 and SlowToTell.naps.num_calls > 20
    assert (tmp_path / "slow.jsonl").read_bytes() == (tmp_path / "normal.jsonl").read_bytes()


def test_d01_a_busy_machine_changes_nothing(tmp_path: Path) -> None:
    write_log(tmp_path / "normal.jsonl", 100)
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        write_log(tmp_path / "busy.jsonl", 100)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert (tmp_path / "busy.jsonl").read_bytes() == (tmp_path / "normal.jsonl").read_bytes()


@pytest.mark.parametrize("seed", ["0", "1", "2"])
def test_d02_the_seed_of_hashes_changes_nothing(seed: str, tmp_path: Path) -> None:
    here, there = tmp_path / "here.jsonl", tmp_path / "there.jsonl"
    write_log(here, 500)
    program = "import sys; from pathlib import Path; from tests.conformance import test_determinism as t; "
    program += "t.write_log(Path(sys.argv[1]), 500)"
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", program, str(there)], check=True, env=environment, cwd=root)
    assert there.read_bytes() == here.read_bytes()


def test_d02_two_runs_in_one_process_are_equal_whatever_the_global_generator_does(tmp_path: Path) -> None:
    write_log(tmp_path / "first.jsonl", 500)
    random.seed(99)
    state = random.getstate()
    write_log(tmp_path / "second.jsonl", 500)
    assert random.getstate() == state, "the global generator was used"
    assert (tmp_path / "second.jsonl").read_bytes() == (tmp_path / "first.jsonl").read_bytes()


def test_d02_other_ids_change_the_names_and_nothing_else(tmp_path: Path) -> None:
    """Ids keep their order, which breaks ties; their values do not matter."""
    ids = [1000 + 7 * index for index in range(500)]
    write_log(tmp_path / "plain.jsonl", 500)
    write_log(tmp_path / "renamed.jsonl", 500, ids=ids)
    names = {new: old for old, new in enumerate(ids)}
    assert _renamed(tmp_path / "renamed.jsonl", names) == _renamed(tmp_path / "plain.jsonl", {})


def _renamed(log: Path, names: dict[int, int]) -> list[dict[str, Any]]:
    events = [json.loads(line) for line in log.read_text().splitlines()]
    for event in events:
        if "id" in event:
            event["id"] = names.get(event["id"], event["id"])
        for pair in (*event.get("chunks", ()), *event.get("blocks", ())):
            pair[0] = names.get(pair[0], pair[0])
    return events
