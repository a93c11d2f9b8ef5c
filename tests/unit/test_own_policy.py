"""A policy of the user's that fails in a run: named with file and line, without a traceback."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import schedlab as lab
from schedlab.config import SchedulerConfig
from schedlab.errors import UsageError
from schedlab.policies.fifo import Fifo
from schedlab.policies.registry import policy_for
from schedlab.policies.source import policy_sha256
from tests.unit.replay_helpers import schedlab, small_trace

RAISES = """
from schedlab.policies.base import StaticPolicy


class Crash(StaticPolicy):
    name = "crash"

    def key(self, request):
        return request.nothing
"""
OWN_ERROR = """
from schedlab.policies.base import StaticPolicy


class Own(BaseException):
    pass


class Crash(StaticPolicy):
    name = "crash"

    def key(self, request):
        raise Own("mine")
"""
FORGETS = """
from itertools import count

from schedlab.policies.base import StaticPolicy

COUNT = count()


class Forgets(StaticPolicy):
    name = "forgets"

    def key(self, request):
        return next(COUNT) * 7 % 10
"""


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (RAISES, "policy Crash raises at mine.py:9 in key (return request.nothing): AttributeError: "),
        (OWN_ERROR, 'policy Crash raises at mine.py:13 in key (raise Own("mine")): Own: mine'),
        (FORGETS, "policy Forgets gave an answer that the scheduler cannot use at queues.py:"),
    ],
)
def test_it_is_named_with_file_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], code: str, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(code)
    name = f"mine.py:{'Forgets' if code is FORGETS else 'Crash'}"
    ended = schedlab(monkeypatch, capsys, "replay", small_trace(tmp_path / "t.csv", 30), "--policy", name)
    assert ended.code == 2 and ended.err.count("\n") == 1
    assert told in ended.err and f"schedlab check {name} finds the smallest example" in ended.err


def test_a_fault_of_this_project_is_not_put_on_a_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ValueError("ours")

    trace = small_trace(tmp_path / "t.csv", 3)
    (tmp_path / "mine.py").write_text(RAISES.replace("nothing", "arrival_ns"))
    monkeypatch.setattr("experiments.metrics.usage.Usage.on_step_done", broken)
    with pytest.raises(ValueError, match="ours"):
        lab.replay(trace, policy=f"{tmp_path / 'mine.py'}:Crash")
    monkeypatch.undo()
    monkeypatch.setattr(Fifo, "key", broken)
    with pytest.raises(ValueError, match="ours"):
        lab.replay(trace, policy="fifo")
    with pytest.raises(UsageError, match="Crash"):
        (tmp_path / "other.py").write_text(RAISES)
        lab.replay(trace, policy=f"{tmp_path / 'other.py'}:Crash")


@pytest.mark.parametrize("place", ["own_policy.py:Crash", "own_policy_module:Crash"])
def test_a_run_is_not_repeated_with_an_edited_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / (place.partition(":")[0].removesuffix(".py") + ".py")
    file.write_text(RAISES.replace("nothing", "arrival_ns"))
    before = hashlib.sha256(file.read_bytes()).hexdigest()
    trace = small_trace(tmp_path / "t.csv", 3)
    assert schedlab(monkeypatch, capsys, "replay", trace, "--policy", place, "--out", "a").code == 0
    assert schedlab(monkeypatch, capsys, "replay", "a/config.json", "--out", "b").code == 0
    file.write_text(RAISES.replace("nothing", "max_tokens"))
    ended = schedlab(monkeypatch, capsys, "replay", "a/config.json", "--out", "c")
    assert ended.code == 2 and f"the file of policy {place} has changed since" in ended.err
    assert before in ended.err and hashlib.sha256(file.read_bytes()).hexdigest() in ended.err
    assert f"start a new replay with --policy {place}" in ended.err and not (tmp_path / "c").exists()


def test_a_policy_whose_file_is_gone_has_no_digest(tmp_path: Path) -> None:
    place = tmp_path / "mine.py"
    place.write_text("from schedlab.policies.fifo import Fifo\n\n\nclass Mine(Fifo):\n    pass\n")
    policy = policy_for(SchedulerConfig(), f"{place}:Mine", {})
    assert policy_sha256(f"{place}:Mine", policy) == hashlib.sha256(place.read_bytes()).hexdigest()
    place.unlink()
    assert policy_sha256(f"{place}:Mine", policy) is None
