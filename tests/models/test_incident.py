"""A run on the real device in real time, recorded and played again."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tests.torch_needed  # noqa: F401  # isort: skip

from backends.cuda.device import CudaDevice
from experiments.event_log import EventLog
from experiments.incident.recorder import RecordedScheduler, line_of
from experiments.serve.lines_file import LinesFile
from schedlab.config import PreemptionMode
from schedlab.core.scheduler import Scheduler
from schedlab.driver import run_blocking
from schedlab.inbox import Cancel, Close, ResetCache, Submit
from schedlab.mailbox import Mailbox
from schedlab.memory.spill import SpillStore
from schedlab.policies.registry import policy_for
from schedlab.request import Prompt, Request, SamplingParams
from tests.models.lab import config
from tests.models.twins import tiny_model
from tests.unit.replay_helpers import Ended, schedlab

MODES: dict[str, dict[str, Any]] = {
    "recompute": {},
    "host": {"preemption": PreemptionMode.HOST, "swap_host_gib": 1},
    "disk": {"preemption": PreemptionMode.DISK, "swap_disk_gib": 1},
    "cheapest": {"preemption": PreemptionMode.CHEAPEST, "swap_host_gib": 1, "swap_disk_gib": 1},
}
Replay = Callable[..., Ended]


def record(folder: Path, policy: str = "fifo", **changes: Any) -> tuple[Path, bytes]:
    """Serve clients that come, leave and run late, while a thread of their own sends them; the file and the log."""
    settings = config(max_num_seqs=6, max_num_batched_tokens=48, prefix_cache=True, **changes)
    chosen = {"evict": "true"} if policy == "priority" else {}
    file: LinesFile[Any] = LinesFile(folder / "run.ticks.jsonl", line_of)
    with SpillStore(0, 1 << 30, folder / "spill") as store, EventLog(folder / "live.jsonl") as log:
        device = CudaDevice(tiny_model(), settings, 22, store=store)
        like = Scheduler(settings, policy_for(settings, policy, chosen), device)
        core, mailbox = RecordedScheduler(like, policy, chosen, file.put), Mailbox()
        core.bus.add(log)
        sender = threading.Thread(target=_send, args=(mailbox, device))
        sender.start()
        run_blocking(core, device, mailbox)
        sender.join()
        device.close()
    file.close()
    return file.path, (folder / "live.jsonl").read_bytes()


def _send(mailbox: Mailbox, device: CudaDevice) -> None:
    """Seven at once, which the pool cannot hold at their longest, and others one after another."""
    for number in range(14):
        prompt = [7 * token % 500 for token in range(24)] + [number] * (1 + number % 5)
        now_ns = device.now_ns()
        sampling = SamplingParams(stop_token_ids=tuple(range(0, 500, 9)) if number % 4 == 1 else ())
        mailbox.send(
            Submit(
                Request(
                    number,
                    Prompt.of_tokens(prompt),
                    40,
                    arrival_ns=now_ns,
                    priority=number % 3,
                    deadline_ns=now_ns + 20_000_000 if number == 5 else None,
                    cache_salt="secret" if number == 3 else "",
                    sampling=sampling,
                )
            )
        )
        if number in (4, 9):
            mailbox.send(Cancel(number - 4))
        if number == 8:
            mailbox.send(ResetCache(preempt_running=True))
        if number > 6:
            time.sleep(0.004)
    mailbox.send(Close())


@pytest.fixture
def replay(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Replay:
    return lambda *arguments: schedlab(monkeypatch, capsys, "replay", *arguments)


@pytest.mark.parametrize("mode", MODES)
def test_played_again_it_gives_the_same_decision_log(mode: str, tmp_path: Path, replay: Replay) -> None:
    path, live = record(tmp_path, **MODES[mode])
    ended = replay(path, "--events", "--out", tmp_path / "again")
    assert ended.code == 0, ended.err
    again = (tmp_path / "again" / "events.jsonl").read_bytes()
    assert again.decode().splitlines() == live.decode().splitlines()
    assert again == live
    assert "every decision is as it was recorded" in ended.out
    words = {"recompute": b'"preempted"', "host": b'"to":"host"', "disk": b'"to":"disk"', "cheapest": b'"step"'}
    assert [word for word in (words[mode], b'"cached":24', b'"cancelled"', b'"stop"') if word not in live] == []


def test_with_another_policy_too(tmp_path: Path, replay: Replay) -> None:
    path, live = record(tmp_path, "priority")
    assert json.loads(path.read_text().splitlines()[0])["policy"] == "priority"
    assert replay(path, "--events", "--out", tmp_path / "again").code == 0
    assert (tmp_path / "again" / "events.jsonl").read_bytes() == live


def test_what_is_recorded_has_no_text_and_no_secret(tmp_path: Path) -> None:
    text = record(tmp_path)[0].read_text()
    assert "secret" not in text and "token_ids" not in text


def test_another_decision_ends_with_code_1_and_its_tick(tmp_path: Path, replay: Replay) -> None:
    path = record(tmp_path)[0]
    lines = path.read_text().splitlines()
    header = json.loads(lines[0])
    header["scheduler"]["max_num_seqs"] = 2
    path.write_text("\n".join([json.dumps(header, separators=(",", ":")), *lines[1:]]) + "\n")
    ended = replay(path)
    assert ended.code == 1
    assert "same_input_same_decisions" in ended.err and "tick " in ended.err


def test_a_recording_that_was_cut_off_is_played_to_its_last_tick(tmp_path: Path, replay: Replay) -> None:
    path, live = record(tmp_path)
    text = path.read_text()
    path.write_text(text[: len(text) * 2 // 3])
    ended = replay(path, "--events", "--out", tmp_path / "again")
    assert ended.code == 0, ended.err
    assert "the recording was cut off" in ended.out
    again = (tmp_path / "again" / "events.jsonl").read_bytes()
    assert len(again) > len(live) // 2 and live.startswith(again)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--events",), "give both or neither"),
        (("--num-blocks", "9"), "holds a whole run"),
        (("--check",), "holds a whole run"),
        (("--events", "--out", "."), "exists already"),
    ],
)
def test_wrong_use_is_refused(arguments: tuple[str, ...], message: str, tmp_path: Path, replay: Replay) -> None:
    path = tmp_path / "run.ticks.jsonl"
    path.write_text('{"schedlab_incident":1}\n' if "--out" not in arguments else record(tmp_path)[0].read_text())
    ended = replay(path, *arguments)
    assert ended.code == 2 and message in ended.err


@pytest.mark.parametrize("text", ['{"schedlab_incident":1}\n', '{"schedlab_incident":2}\n', '{"schedlab_incident"'])
def test_a_damaged_file_is_refused(text: str, tmp_path: Path, replay: Replay) -> None:
    path = tmp_path / "run.ticks.jsonl"
    path.write_text(text)
    ended = replay(path)
    assert ended.code == 2 and str(path) in ended.err and "Traceback" not in ended.err
