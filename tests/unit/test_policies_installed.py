"""Installed policies that cannot be loaded or made are named in one message, and so is one that never admits."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import schedlab
from schedlab.errors import Stalled, UsageError
from schedlab.policies.load import load
from tests.unit.replay_helpers import small_trace

SOURCE = """
from __future__ import annotations
from typing import TYPE_CHECKING
from schedlab.policies.base import Policy
if TYPE_CHECKING:
    from schedlab.config import SchedulerConfig

class Never(Policy):
    def admit(self, view, sequence):
        return False

class Unreadable(Policy):
    def __init__(self, config: SchedulerConfig):
        super().__init__(config)

class Empty(Policy):
    def __init__(self):
        pass

class Raising(Policy):
    def __init__(self, config):
        raise RuntimeError("no luck")

class Forgetful(Policy):
    def __init__(self, config):
        pass

class Odd(Policy):
    def __init__(self, config, choice: "int | None" = None):
        super().__init__(config)
"""
WITH_A_RECORD = """
from __future__ import annotations
from dataclasses import dataclass

@dataclass
class Own:
    count: int = 3
"""


@pytest.fixture
def replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Replays three requests with a class of a freshly installed package."""
    classes = ("Never", "Unreadable", "Empty", "Raising", "Forgetful", "Odd", "Missing")
    lines = [f"{name.lower()} = hostile_policies:{name}" for name in classes]
    entries = ["[schedlab.policies]", *lines, "nowhere = no_such_module_at_all:X", "broken = hostile_broken:X"]
    info = tmp_path / "hostile_policies-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hostile-policies\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join(entries) + "\n")
    (tmp_path / "hostile_policies.py").write_text(SOURCE)
    (tmp_path / "hostile_broken.py").write_text("def (:\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    trace = small_trace(tmp_path / "t.csv", 3)
    return lambda policy, **options: schedlab.replay(trace, policy=policy, **options)


@pytest.mark.parametrize(
    ("policy", "named"),
    [
        ("missing", "hostile_policies:Missing cannot be loaded"),
        ("nowhere", "no_such_module_at_all"),
        ("broken", "SyntaxError"),
        ("empty", "cannot be made"),
        ("raising", "no luck"),
        ("forgetful", "super"),
        ("unreadable", "SchedulerConfig"),
    ],
)
def test_a_policy_that_cannot_be_made_is_named(replay: Any, policy: str, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        replay(policy)


def test_a_parameter_that_no_text_can_be_is_named(replay: Any) -> None:
    with pytest.raises(UsageError, match="--set choice"):
        replay("odd", set={"choice": 3})


def test_a_policy_that_never_admits_stalls_with_the_first_request_named(replay: Any) -> None:
    with pytest.raises(Stalled, match=r"request 0 \(pending\) cannot go on .* policy "):
        replay("never")


def test_a_file_may_define_what_is_looked_up_by_its_module(tmp_path: Path) -> None:
    """Each run under a name of its own: a module stays loaded."""
    path = tmp_path / f"own_{tmp_path.name}.py"
    path.write_text(WITH_A_RECORD)
    assert load(f"{path}:Own")().count == 3


def test_a_file_takes_no_loaded_module_s_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "json", json)
    path = tmp_path / "json.py"
    path.write_text(WITH_A_RECORD)
    assert load(f"{path}:Own")().count == 3
    assert sys.modules["json"] is json
