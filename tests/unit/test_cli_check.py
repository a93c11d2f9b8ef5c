"""`schedlab check`: exit codes, the file that a failure leaves, and what the command says of wrong use."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from schedlab.errors import InvariantViolation, UsageError
from schedlab.invariants import laws
from schedlab.testing import Script
from schedlab.testing.laws import TESTING_LAWS
from schedlab.testing.tally import Tally
from tests.unit.replay_helpers import Ended, schedlab

STARVES = """
from schedlab.policies.base import StaticPolicy


class Shortest(StaticPolicy):
    name = "shortest"

    def key(self, request):
        return request.prompt.num_tokens
"""
NEEDS_MORE = """
from schedlab.policies.base import Policy


class Needs(Policy):
    def __init__(self, config, more):
        super().__init__(config)
"""
MENDED = STARVES.replace("num_tokens", "num_tokens * 100_000_000 + request.arrival_ns")

Patch = pytest.MonkeyPatch
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: Patch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("schedlab.testing.check.SHRINK_TICKS", 2_000)
    (tmp_path / "mine.py").write_text(STARVES)
    (tmp_path / "FAIL-shortest.json").write_text('{"schedlab_check": 1}')
    (tmp_path / "leaves.py").write_text("raise SystemExit(3)")
    (tmp_path / "broken.py").write_text("class Any(:")
    (tmp_path / "needs.py").write_text(NEEDS_MORE)
    return tmp_path


def test_broken_shown_again_and_mended(folder: Path, monkeypatch: Patch, capsys: Capture) -> None:
    found = schedlab(monkeypatch, capsys, "check", "mine.py:Shortest", "--examples", 60)
    assert found.code == 1
    assert "a law broke: waiting_is_bounded" in found.out and "def test_shortest_keeps_waiting_is_bounded" in found.out
    again = schedlab(monkeypatch, capsys, "replay", "FAIL-shortest.json", "--check")
    assert again.code == 1
    assert "who holds" in again.out and "waiting_is_bounded" in again.err
    (folder / "mine.py").write_text(MENDED)
    mended = schedlab(monkeypatch, capsys, "replay", "FAIL-shortest.json", "--check")
    assert (mended.code, "every law holds" in mended.out) == (0, True)


def test_the_regression_test_that_is_printed_fails_until_the_policy_is_mended(
    folder: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    found = schedlab(monkeypatch, capsys, "check", "mine.py:Shortest", "--examples", 60)
    told, code = found.out.split("a regression test: ")[1].split("\n\n", 1)
    assert told.startswith("save it as test_shortest.py in this folder, and run here")
    assert told.endswith(".venv/bin/python -m pytest test_shortest.py")
    with pytest.raises(Exception, match="waiting_is_bounded"):
        _run_test(code)
    (folder / "mine.py").write_text(MENDED)
    _run_test(code)


def test_without_hypothesis_it_says_how_this_python_gets_it(folder: Path, monkeypatch: Patch, capsys: Capture) -> None:
    monkeypatch.setattr("experiments.extras.find_spec", lambda name: None)
    ended = schedlab(monkeypatch, capsys, "check", "mine.py:Shortest")
    assert ended.code == 2
    assert f"check needs hypothesis; install with: {sys.executable} -m pip install hypothesis" in ended.err


def test_what_the_readme_does_after_make_replay_is_installed_by_it() -> None:
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()
    rule = makefile[makefile.index("\n.venv/replay:") :].partition("\n\n")[0]
    assert "--editable '.[check]'" in rule


def test_no_time_at_all_is_refused(folder: Path, monkeypatch: Patch, capsys: Capture) -> None:
    ended = schedlab(monkeypatch, capsys, "check", "fifo", "--time", "0s")
    assert (ended.code, "--time is 0s" in ended.err, ended.out) == (2, True, "")


def _run_test(code: str) -> None:
    names: dict[str, object] = {}
    exec(code, names)
    (test,) = [value for name, value in names.items() if name.startswith("test_") and callable(value)]
    test()


def test_a_certificate_says_what_was_tried(folder: Path, monkeypatch: Patch, capsys: Capture) -> None:
    ended = schedlab(monkeypatch, capsys, "check", "fifo", "--examples", 40, "--seed", 3)
    assert ended.code == 0
    for title in (
        "laws held",
        "examples",
        "ticks",
        "states reached",
        "life-cycle moves",
        "scheduler decisions",
        "seed",
    ):
        assert title in ended.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("check", "nobody"), "no policy 'nobody'"),
        (("check", "none.py:Any"), "none.py: no such file"),
        (("check", "mine.py:Any"), "mine.py has no 'Any'; its classes: Shortest\n"),
        (("check", "mine.py"), "mine.py names no class; its classes: Shortest\n"),
        (("check", "FAIL-shortest.json"), "schedlab replay FAIL-shortest.json --check"),
        (("check", "no_such_module:Any"), "no module 'no_such_module'"),
        (("check", "json:dumps"), "no subclass of"),
        (("check", "fifo", "--examples", "0"), "--examples is 0"),
        (("check", "fifo", "--examples", "5", "--time", "1s"), "give one of them"),
        (("check", "fifo", "--time", "soon"), "'soon' is no duration"),
        (("check", "fifo", "--seed", "-1"), "--seed is -1"),
        (("check", "fifo", "--out", "."), "a folder; name a file"),
        (("check", "fifo", "--out", "no/such/F.json"), "its folder does not exist"),
        (("check", "leaves.py:Any"), "cannot be loaded (SystemExit: 3)"),
        (("check", "broken.py:Any"), "broken.py:Any"),
        (("check", "needs.py:Needs"), "missing 1 required positional argument: 'more'"),
    ],
)
def test_wrong_use_is_told(
    arguments: tuple[str, ...], said: str, folder: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    ended: Ended = schedlab(monkeypatch, capsys, *arguments)
    assert (ended.code, said in ended.err) == (2, True), ended.err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"policy": "nobody"}, "no policy 'nobody'"),
        ({"world": {}}, "world lacks 'config'"),
        ({"actions": [{"do": "Jump"}]}, "'Jump' is none of Submit, Cancel"),
        ({"actions": [{"do": "Tick", "ticks": "many"}]}, "'many' is no int"),
        ({"actions": [{"do": []}]}, "[] is none of Submit, Cancel"),
        ({"actions": [{"times": 10**12, "do": "Tick"}]}, "actions[0].times is 1000000000000; give 1 to 100000"),
        ({"schedlab_check": 2}, "not what `schedlab check` saves"),
    ],
)
def test_a_damaged_file_is_told(
    change: dict[str, object], said: str, folder: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    world = {"config": {}, "cost": {"name": "constant", "parameters": {"step_ns": 1000}}, "num_blocks": 4}
    document = {"schedlab_check": 1, "policy": "fifo", "world": world, "actions": [], **change}
    (folder / "F.json").write_text(json.dumps(document))
    ended = schedlab(monkeypatch, capsys, "replay", "F.json", "--check")
    assert (ended.code, said in ended.err) == (2, True), ended.err
    with_flags = schedlab(monkeypatch, capsys, "replay", "F.json", "--check", "--tp", "2")
    assert with_flags.code == 2


def test_the_same_seed_prints_and_saves_the_same_bytes(folder: Path, monkeypatch: Patch, capsys: Capture) -> None:
    runs = []
    for _ in range(2):
        ended = schedlab(monkeypatch, capsys, "check", "mine.py:Shortest", "--examples", 60)
        runs.append((ended.code, ended.out, (folder / "FAIL-shortest.json").read_bytes()))
        (folder / "FAIL-shortest.json").unlink()
    assert runs[0] == runs[1]


def test_laws_that_nothing_came_of_are_named_and_not_counted(folder: Path, monkeypatch: Patch, capsys: Capture) -> None:
    ended = schedlab(monkeypatch, capsys, "check", "fifo", "--examples", 20)
    text = " ".join(ended.out.split())
    assert "the_important_one_comes_in (needs a priority policy that evicts)" in text
    held = int(text.split("laws held ")[1].split()[0])
    never_judged = text.split("never judged ")[1].split(" examples ")[0].count("(needs ")
    assert held + never_judged == len(laws()) + len(TESTING_LAWS)


def test_a_failure_that_cannot_be_saved_is_in_the_test_that_is_printed(
    folder: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    def full(path: Path, content: bytes) -> Path:
        raise UsageError(f"cannot write {path}: No space left on device; choose a writable place")

    monkeypatch.setattr("experiments.check_command.replace_file", full)
    found = schedlab(monkeypatch, capsys, "check", "mine.py:Shortest", "--examples", 60)
    assert found.code == 1
    assert "not saved: cannot write FAIL-shortest.json: No space left on device" in found.out
    code = found.out[found.out.index("from schedlab.policies.registry") :]
    with pytest.raises(Exception, match="waiting_is_bounded"):
        _run_test(code)


def test_who_interrupts_the_search_for_a_smaller_failure_gets_the_one_that_there_is(
    folder: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    note = Tally.note

    def interrupted(tally: Tally, script: Script, error: InvariantViolation) -> None:
        note(tally, script, error)
        raise KeyboardInterrupt

    monkeypatch.setattr(Tally, "note", interrupted)
    found = schedlab(monkeypatch, capsys, "check", "mine.py:Shortest", "--examples", 60)
    assert (found.code, "a law broke: waiting_is_bounded" in found.out) == (1, True)


def test_who_interrupts_a_search_is_told_that_it_has_no_result(
    folder: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    def interrupted(tally: Tally, *arguments: object, **names: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Tally, "begin_example", interrupted)
    ended = schedlab(monkeypatch, capsys, "check", "fifo", "--examples", 60)
    assert (ended.code, ended.out) == (130, "") and "interrupted" in ended.err
