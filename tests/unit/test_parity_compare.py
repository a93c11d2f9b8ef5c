"""What parity says of two logs, and of a machine without torch."""

from __future__ import annotations

import sys
from array import array
from pathlib import Path

import pytest

from experiments import extras
from experiments.parity.compare import Difference, first_difference
from tests.unit.replay_helpers import schedlab

ADMITTED = '{"t":3,"ev":"admitted","id":7,"cached":0}'
STEP = '{"t":3,"end":9,"ev":"step","chunks":[[7,0,4,true]],"decode":1,"ctx":8,"blocks":[[2,5]],"used":3}'


def difference(tmp_path: Path, real: list[str], simulated: list[str]) -> Difference | None:
    paths = []
    for name, lines in (("real", real), ("simulated", simulated)):
        paths.append(tmp_path / name)
        paths[-1].write_text("".join(f"{line}\n" for line in lines))
    return first_difference(*paths, array("q", range(10, 10 + len(real))))


def test_the_same_bytes_are_no_difference(tmp_path: Path) -> None:
    assert difference(tmp_path, [ADMITTED, STEP], [ADMITTED, STEP]) is None


def test_the_first_line_that_differs_is_named_with_its_tick_and_whom_it_concerns(tmp_path: Path) -> None:
    found = difference(tmp_path, [ADMITTED, STEP], [ADMITTED, STEP.replace("[7,0,4", "[8,0,4")])
    assert found == (2, 11, STEP, STEP.replace("[7,0,4", "[8,0,4"))
    assert (found.decision, found.requests) == ("step", (7, 8))


def test_a_block_handed_to_a_row_concerns_that_row(tmp_path: Path) -> None:
    found = difference(tmp_path, [STEP], [STEP.replace("[2,5]", "[2,6]")])
    assert found is not None and found.requests == (2,)


def test_two_decisions_are_named_both(tmp_path: Path) -> None:
    found = difference(tmp_path, [ADMITTED], [STEP])
    assert found is not None and (found.decision, found.requests) == ("admitted / step", (7,))


@pytest.mark.parametrize("longer", [0, 1])
def test_a_log_that_ends_before_the_other_differs_there(longer: int, tmp_path: Path) -> None:
    logs = [[ADMITTED], [ADMITTED]]
    logs[longer].append(STEP)
    found = difference(tmp_path, *logs)
    assert found is not None and found.line == 2 and found[2 + longer] == STEP and found[3 - longer] == ""
    assert found.requests == (7, 2)


def test_without_torch_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    ended = schedlab(monkeypatch, capsys, "parity")
    assert ended.code == 2
    assert "parity needs torch, safetensors, tokenizers, gguf; install with: " in ended.err
    assert f"{sys.executable} -m pip install torch safetensors tokenizers gguf" in ended.err
