"""`schedlab parity`: its table, what it says of devices that decide differently, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import tests.torch_needed  # noqa: F401  # isort: skip

from experiments.parity import command
from experiments.parity.plan import Plan
from experiments.parity.real import RealSide
from schedlab.policies.base import Policy
from schedlab.policies.fifo import Fifo
from schedlab.policies.view import View
from schedlab.sequence import Sequence as Live
from tests.unit.replay_helpers import Ended, read, schedlab, session_trace, write_trace

MonkeyPatch = pytest.MonkeyPatch
Capture = pytest.CaptureFixture[str]
TIGHT = ("--num-blocks", "12", "--block-size", "8", "--set", "max_num_seqs=6", "--set", "max_num_batched_tokens=24")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Six at once that outgrow a pool of 96 tokens."""
    return write_trace(tmp_path / "trace.csv", [(0, 20 + row, 20) for row in range(6)])


def test_both_devices_decide_alike_and_the_logs_are_kept(
    trace: Path, tmp_path: Path, monkeypatch: MonkeyPatch, capsys: Capture
) -> None:
    ended = schedlab(monkeypatch, capsys, "parity", trace, *TIGHT, "--out", tmp_path / "out")
    assert ended.code == 0, ended.err
    assert ended.out.rstrip().endswith("both devices made the same decisions, to the byte")
    real, simulated = ((tmp_path / "out" / f"{side}.jsonl").read_bytes() for side in ("real", "simulated"))
    document = read(tmp_path / "out", "parity.json")
    assert real == simulated and document["sha256"] == sha256(real).hexdigest() in ended.out
    assert document["bytes_compared"] == len(real)
    events = [json.loads(line)["ev"] for line in real.splitlines()]
    assert document["steps"] == events.count("step") and document["preempted"] == events.count("preempted") > 0
    assert document["output_tokens"] == 120 and document["finished"] == 6 and document["mixed"] > 0


def test_sessions_swaps_and_the_cache_take_part(tmp_path: Path, monkeypatch: MonkeyPatch, capsys: Capture) -> None:
    trace = session_trace(tmp_path / "trace.csv")
    swap = ("--set", "preemption=disk", "--set", "swap_disk_gib=1", "--set", "swap_host_gib=1")
    ended = schedlab(monkeypatch, capsys, "parity", trace, *TIGHT, *swap, "--num-blocks", "20", "--out", tmp_path / "o")
    assert ended.code == 0, ended.err + ended.out
    assert read(tmp_path / "o", "parity.json")["finished"] == 7


class Contrary(Fifo):
    """Sends the first who came away, where the others send the last."""

    def yield_(self, view: View, owners: Sequence[Live]) -> Live:
        return owners[0]


def test_another_policy_on_one_side_is_found_and_named(trace: Path, monkeypatch: MonkeyPatch, capsys: Capture) -> None:
    policy, sides = Plan.policy, iter((False, True))

    def by_side(plan: Plan) -> Policy:
        return Contrary(plan.scheduler) if next(sides) else policy(plan)

    monkeypatch.setattr(Plan, "policy", by_side)
    ended = schedlab(monkeypatch, capsys, "parity", trace, *TIGHT)
    assert ended.code == 1
    found = _found(ended)
    assert json.loads(found["real"])["ev"] == json.loads(found["simulated"])["ev"] == "preempted"
    assert json.loads(found["real"])["id"] != json.loads(found["simulated"])["id"]
    ids = [json.loads(found[side])["id"] for side in ("real", "simulated")]
    assert f"preempted (request {ids[0]}, request {ids[1]})" in ended.out
    assert "tick " in found["where"] and int(found["line"]) > 1


def test_a_device_that_is_asked_for_something_else_names_tick_and_step(
    trace: Path, monkeypatch: MonkeyPatch, capsys: Capture
) -> None:
    repeat = command.repeat

    def forged(plan: Any, recording: Any, *rest: Any) -> Any:
        kept = recording.steps[4]
        recording.steps[4] = kept._replace(shape=kept.shape._replace(context_tokens=7))
        return repeat(plan, recording, *rest)

    monkeypatch.setattr(command, "repeat", forged)
    ended = schedlab(monkeypatch, capsys, "parity", trace, *TIGHT)
    assert ended.code == 1
    assert "tick 6, step 5: the simulated device was asked for something else" in ended.out
    assert "rows of 7 tokens" in ended.out


def test_another_time_on_one_side_is_found_in_the_log(trace: Path, monkeypatch: MonkeyPatch, capsys: Capture) -> None:
    repeat = command.repeat

    def slower(plan: Any, recording: Any, *rest: Any) -> Any:
        recording.steps[2] = recording.steps[2]._replace(duration_ns=1)
        return repeat(plan, recording, *rest)

    monkeypatch.setattr(command, "repeat", slower)
    ended = schedlab(monkeypatch, capsys, "parity", trace, *TIGHT)
    found = _found(ended)
    assert ended.code == 1
    assert json.loads(found["simulated"])["end"] == json.loads(found["simulated"])["t"] + 1
    assert "tick 4: step" in ended.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--device", "abacus"), "--device 'abacus' is not known"),
        (("--model", "nowhere"), "nowhere: is no folder of a Hugging Face model and no .gguf file"),
        (("--set", "window_blocks=4", "--set", "swap_disk_gib=1"), "window_blocks is not served by this device"),
        (("--num-blocks", "9999999999"), "the memory holds"),
        (("--hardware", "h100"), "No such option"),
        (("--out", "."), "exists already"),
    ],
)
def test_wrong_use_is_refused(
    arguments: tuple[str, ...], message: str, trace: Path, monkeypatch: MonkeyPatch, capsys: Capture
) -> None:
    ended = schedlab(monkeypatch, capsys, "parity", trace, *arguments)
    assert ended.code == 2
    assert message in ended.err


def test_a_model_is_loaded_for_the_longest_sequence_that_is_asked_for() -> None:
    """Its tables of angles have so many positions, and no more."""
    assert RealSide("tiny", "cpu", None).max_model_len == 1 << 17
    side = RealSide("tiny", "cpu", 1000)
    assert side.max_model_len == 1000
    (angles,) = side._model._angles.values()
    assert angles.shape[1] == 1000


def test_faults_of_a_device_are_refused(trace: Path, tmp_path: Path, monkeypatch: MonkeyPatch, capsys: Capture) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text("[[step_failure]]\nsteps = [3]\n")
    ended = schedlab(monkeypatch, capsys, "parity", trace, "--faults", plan)
    assert ended.code == 2 and "parity puts no faults into a real device" in ended.err


def _found(ended: Ended) -> dict[str, str]:
    """The first lines that differ, by side, and where they are."""
    found: dict[str, str] = {}
    for line in ended.out.splitlines():
        name, _, rest = line.strip().partition(": ")
        if name in ("real", "simulated"):
            found.setdefault(name, rest.strip())
        elif line.startswith("line "):
            found |= {"line": name.split(",")[0].removeprefix("line "), "where": name}
    return found


def test_where_every_request_is_refused_nothing_was_compared_and_nothing_is_left(
    trace: Path, tmp_path: Path, monkeypatch: MonkeyPatch, capsys: Capture
) -> None:
    ended = schedlab(monkeypatch, capsys, "parity", trace, "--num-blocks", 1, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert ended.code == 2 and "same decisions" not in ended.out
    assert "nothing was compared: 6 requests ended and no step ran; 6 of them were refused" in ended.err
    assert "the first is request 0: the prompt of 20 tokens can never fit" in ended.err
