"""A modelled GPU in real time, recorded tick by tick and played again. Needs neither torch nor HTTP."""

from __future__ import annotations

import hashlib
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from backends.sim.costs.constant import Constant
from backends.sim.filler import Filler
from backends.sim.links import DEFAULT_LINKS
from backends.sim.paced import PacedDevice
from experiments.event_log import EventLog
from experiments.incident.recorder import RecordedScheduler, line_of
from experiments.incident.replay import Incident, is_incident
from experiments.serve.lines_file import LinesFile
from schedlab.config import Fusion, PreemptionMode, SchedulerConfig
from schedlab.core.scheduler import Scheduler
from schedlab.device import DeviceFacts
from schedlab.driver import run_blocking
from schedlab.errors import InvariantViolation, UsageError
from schedlab.inbox import Cancel, Close, Submit
from schedlab.mailbox import Mailbox
from schedlab.policies.registry import policy_for
from schedlab.request import Prompt, Request, SamplingParams
from tests.unit.replay_helpers import schedlab

STEP_NS = 200_000
TEXT = Prompt.of_tokens(range(9))
SETTINGS: dict[str, tuple[str, dict[str, str], dict[str, Any]]] = {
    "fifo": ("fifo", {}, {}),
    "separate lanes": ("slai", {"tbt_deadline_ms": "1"}, {"fusion": Fusion.NONE}),
    "swap": ("fifo", {}, {"preemption": PreemptionMode.CHEAPEST, "swap_host_gib": 1, "swap_disk_gib": 1}),
    "priority": ("priority", {"evict": "true", "aging_per_s": "2"}, {}),
    "cache": ("fifo", {}, {"prefix_cache": True}),
}


def record(folder: Path, name: str) -> tuple[Path, bytes]:
    """Ten clients with one text, some of whom leave, run late or want its scores; the file, and the run's own log."""
    policy, chosen, changes = SETTINGS.get(name, (name, {}, {}))
    config = SchedulerConfig(max_num_seqs=6, max_num_batched_tokens=32, block_size=4, max_model_len=200, **changes)
    device = PacedDevice(
        Constant(step_ns=STEP_NS), Filler(), DeviceFacts("paced", 24, block_bytes=1 << 16), dict(DEFAULT_LINKS)
    )
    file: LinesFile[Any] = LinesFile(folder / "run.ticks.jsonl", line_of)
    like = Scheduler(config, policy_for(config, policy, chosen), device, leap=False)
    core, mailbox = RecordedScheduler(like, policy, chosen, file.put), Mailbox()
    with EventLog(folder / "live.jsonl") as log:
        core.bus.add(log)
        sender = threading.Thread(target=_send, args=(mailbox, device))
        sender.start()
        run_blocking(core, device, mailbox)
        sender.join()
    file.close()
    return file.path, (folder / "live.jsonl").read_bytes()


def _send(mailbox: Mailbox, device: PacedDevice) -> None:
    for number in range(10):
        now_ns = device.now_ns()
        deadline_ns = now_ns + 10 * STEP_NS if number == 3 else None
        scored = SamplingParams(prompt_logprobs=0 if number % 4 == 1 else None)
        mailbox.send(
            Submit(Request(number, TEXT, 24, now_ns, priority=number % 2, deadline_ns=deadline_ns, sampling=scored))
        )
        if number == 5:
            mailbox.send(Cancel(2))
        if number > 5:
            time.sleep(0.001)
    mailbox.send(Close())


@pytest.mark.parametrize("name", SETTINGS)
def test_played_again_it_decides_the_same(name: str, tmp_path: Path) -> None:
    path, live = record(tmp_path, name)
    assert is_incident(path)
    incident = Incident(path)
    with EventLog(tmp_path / "again.jsonl") as log:
        incident.core.bus.add(log)
        replayed = incident.replay()
    again = (tmp_path / "again.jsonl").read_bytes()
    assert again.decode().splitlines() == live.decode().splitlines()
    assert again == live and replayed.is_whole
    assert b'"cancelled"' in live and (b'"preempted"' in live or b'"swapped_out"' in live)
    assert replayed.counts.finished == 10 and replayed.num_ticks > 10


def test_a_decision_that_another_version_makes_otherwise_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = record(tmp_path, "fifo")
    monkeypatch.setattr("schedlab.policies.fifo.Fifo.yield_", lambda policy, view, owners: owners[0])
    with pytest.raises(InvariantViolation, match=r"tick \d+: "):
        Incident(path).replay()


def test_an_edited_policy_is_told_as_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = "from schedlab.policies.base import StaticPolicy\n\n\nclass Mine(StaticPolicy):\n    name = 'mine'\n"
    mine = tmp_path / "mine.py"
    mine.write_text(code)
    path, _ = record(tmp_path, f"{mine}:Mine")
    before = hashlib.sha256(mine.read_bytes()).hexdigest()
    assert Incident(path).replay().is_whole
    mine.write_text(f"{code}    may_starve = True\n")
    ended = schedlab(monkeypatch, capsys, "replay", path)
    assert ended.code == 2 and f"the file of policy {mine}:Mine has changed since the recording" in ended.err
    assert before in ended.err and hashlib.sha256(mine.read_bytes()).hexdigest() in ended.err
    assert f"schedlab replay {tmp_path / 'run.jsonl'} --policy {mine}:Mine" in ended.err


def test_a_damaged_line_is_refused_with_its_place(tmp_path: Path) -> None:
    path, _ = record(tmp_path, "fifo")
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:9], '{"tick":5}\n', *lines[9:]]))
    with pytest.raises((UsageError, InvariantViolation), match=r"tick \d+"):
        Incident(path).replay()


def test_a_replay_tells_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, _ = record(tmp_path, "fifo")
    for name in ("experiments.incident.replay.SECONDS_BETWEEN_SHOWS", "experiments.bar.PATIENCE_S"):
        monkeypatch.setattr(name, -1.0)
    monkeypatch.setattr("experiments.bar.SECONDS_BETWEEN_LINES", 0.0)
    ended = schedlab(monkeypatch, capsys, "replay", path)
    ticks = int(ended.out.split(" ticks")[0].replace(",", ""))
    lines = [line for line in ended.err.splitlines() if line.startswith("replay: ")]
    assert ended.code == 0 and len(lines) > 3
    shown = [line.removeprefix("replay: ").split(" ticks, recorded ")[0].split(" of ") for line in lines]
    assert {int(total.replace(",", "")) for _, total in shown} == {ticks}
    done = [int(number.replace(",", "")) for number, _ in shown]
    assert done == sorted(done) and done[0] < done[-1]
