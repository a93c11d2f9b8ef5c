"""A run is a function of its inputs: not of the process, the order of hashes, or a run before it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.property.fixed_worlds import digest, fixed_worlds
from tests.property.world import run

ROOT = Path(__file__).resolve().parent.parent.parent


def test_a_second_run_gives_the_same_bytes() -> None:
    assert digest(leap=True) == digest(leap=True) == digest(leap=False)


@pytest.mark.parametrize("seed", ["0", "1", "4711"])
def test_another_hash_seed_gives_the_same_bytes(seed: str) -> None:
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.property.fixed_worlds"]
    found = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == digest(leap=True)


def test_the_fixed_worlds_are_worth_comparing() -> None:
    for world in fixed_worlds():
        log = run(world, leap=True).log
        for word in (b'"preempted"', b'"resumed"', b'"why":"timeout"', b'"why":"cancelled"', b'"why":"stop"'):
            assert word in log, (world, word)
