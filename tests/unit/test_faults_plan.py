"""Fault plans as files: what is read, and what is refused with the file, the table and the key."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import schedlab
from experiments.fault_file import parse_plan, read_plan
from schedlab.device import CopyKind
from schedlab.errors import UsageError
from schedlab.fault_plan import (
    CopyFailure,
    Departure,
    FaultPlan,
    SlowLinks,
    SlowSteps,
    StepFailure,
    Which,
    Window,
)
from tests.unit.replay_helpers import schedlab as command

S = 1_000_000_000

EVERYTHING = """
[[step_failure]]
steps = [3, 17]
[[step_failure]]
at = "12.5s"
[[device_loss]]
step = 1000
[[slow_steps]]
factor = 2.5
from = "10s"
to = "20s"
[[slow_links]]
factor = 4
from = "0s"
to = "250ms"
links = ["h2d"]
[[copy_failure]]
chance = 0.25
seed = 9
[[disk_full]]
from = "30s"
to = "2m"
[[departure]]
request = 12
at = "3s"
[[departure]]
chance = 0.1
seed = 3
after = ["0s", "10s"]
"""


def test_every_table_is_read(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(EVERYTHING, "utf-8")
    assert parse_plan(read_plan(tmp_path / "plan.toml")) == FaultPlan(
        step_failures=(StepFailure(Which((3, 17))), StepFailure(at_ns=12 * S + S // 2)),
        device_losses=(StepFailure(Which((1000,))),),
        slow_steps=(SlowSteps(2500, window=Window(10 * S, 20 * S)),),
        slow_links=(SlowLinks(4000, Window(0, S // 4), (CopyKind.HOST_TO_DEVICE,)),),
        copy_failures=(CopyFailure(Which(chance=0.25, seed=9), tuple(CopyKind)),),
        disk_full=(Window(30 * S, 120 * S),),
        departures=(Departure(12, 3 * S), Departure(chance=0.1, seed=3, delay=Window(0, 10 * S + 1))),
    )


def test_nothing_planned_is_an_empty_plan() -> None:
    assert parse_plan({}).is_empty and not parse_plan({"disk_full": [{"from": "0s", "to": "1s"}]}).is_empty


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ({"step_failures": []}, "unknown table 'step_failures'; known: step_failure,"),
        ({"step_failure": {"steps": [1]}}, r"step_failure: write it as a table of its own, \[\[step_failure\]\]"),
        ({"step_failure": [{}]}, "step_failure 1: steps is missing; give whole numbers from 1 up"),
        (
            {"step_failure": [{"chanse": 0.1, "seed": 7}]},
            r"step_failure 1: steps is missing; .*; 'chanse' is unknown: did you mean chance\?",
        ),
        ({"slow_steps": [{"faktor": 2, "steps": [1]}]}, r"slow_steps 1: factor is missing; .* did you mean factor\?"),
        ({"step_failure": [{"steps": [0]}]}, r"step_failure 1: steps is \[0\]"),
        (
            {"step_failure": [{"steps": [1]}, {"steps": [1], "sed": 4}]},
            "step_failure 2: unknown key 'sed'; known here:",
        ),
        ({"step_failure": [{"chance": 0.5}]}, "step_failure 1: seed is missing"),
        ({"step_failure": [{"chance": 1.5, "seed": 1}]}, "step_failure 1: chance is 1.5; give a number above 0"),
        ({"step_failure": [{"at": 3}]}, "step_failure 1: at is 3; give a duration"),
        ({"step_failure": [{"at": "3"}]}, "step_failure 1: at: '3' is no duration"),
        ({"step_failure": [{"at": "3s", "steps": [1]}]}, "step_failure 1: unknown key 'steps'"),
        ({"slow_steps": [{"factor": 1, "steps": [1]}]}, "slow_steps 1: factor is 1; give a number above 1"),
        ({"slow_steps": [{"factor": 1.0004, "steps": [1]}]}, "slow_steps 1: factor is 1.0004; give at least 1.001"),
        ({"step_failure": []}, "step_failure is empty; add a fault or leave it out"),
        ({"slow_links": [{"factor": 2, "from": "2s", "to": "1s"}]}, "slow_links 1: to is '1s'; give a time after"),
        ({"copy_failure": [{"copies": [1], "links": ["pcie"]}]}, r"links is \['pcie'\]; give a list of d2h, h2d"),
        ({"departure": [{"request": 1}]}, "departure 1: at is missing"),
        ({"departure": [{"chance": 0.1, "seed": 1, "after": ["5s", "1s"]}]}, "departure 1: after is .* the shorter"),
    ],
)
def test_what_is_wrong_is_named(content: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=f"plan.toml: {named}" if "links is" not in named else named):
        parse_plan(content, "plan.toml: ")


@pytest.mark.parametrize(
    "text", ["[[step_failure]\n", f"a = {'[' * 5000}{']' * 5000}", None], ids=["half", "deep", "none"]
)
def test_a_file_that_is_no_toml_is_refused(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "plan.toml").write_text(text, "utf-8")
    with pytest.raises(UsageError, match=r"--faults .*plan\.toml: (not readable as TOML|cannot be read: No such file)"):
        read_plan(tmp_path / "plan.toml")


@pytest.mark.parametrize(("file", "named"), [("/dev/zero", "more than .* bytes"), ("/dev/null", "it plans nothing")])
def test_a_file_without_end_and_one_without_a_fault_are_refused(file: str, named: str) -> None:
    with pytest.raises(UsageError, match=f"--faults {file}: {named}"):
        read_plan(Path(file))


def test_the_command_names_the_file_and_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text("[[disk_full]]\nfrom = '1s'\nuntil = '2s'\n", "utf-8")
    ended = command(monkeypatch, capsys, "replay", "--limit", 5, "--faults", plan, "--out", tmp_path / "out")
    assert ended.code == 2 and f"{plan}: disk_full 1: to is missing" in ended.err
    assert not (tmp_path / "out").exists()


def test_the_api_takes_the_content_itself() -> None:
    with pytest.raises(UsageError, match="unknown table 'oops'"):
        schedlab.replay(limit=5, faults={"oops": []})


def test_a_chance_gives_the_same_numbers_again_and_about_as_many_as_it_says() -> None:
    numbers = list(islice(Which(chance=0.1, seed=4).in_order(), 2000))
    assert numbers == list(islice(Which(chance=0.1, seed=4).in_order(), 2000)) == sorted(set(numbers))
    assert numbers != list(islice(Which(chance=0.1, seed=5).in_order(), 2000))
    assert 18_000 < numbers[-1] < 22_000
    assert list(islice(Which(chance=1, seed=0).in_order(), 4)) == [1, 2, 3, 4]
