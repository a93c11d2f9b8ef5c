"""What a run does not use costs it no call: cache, states, images and windows are looked at where they are used."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import schedlab
from tests.unit.replay_helpers import write_trace

PARTS = ("core/caching.py", "core/swapping.py", "core/windows.py", "core/snapshots.py", "memory/snapshots.py")


def calls(**options: Any) -> Counter[str]:
    """Calls into those parts during a replay, by part and function."""
    seen: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.endswith(PARTS):
            seen[f"{Path(frame.f_code.co_filename).name}:{frame.f_code.co_name}"] += 1

    sys.setprofile(note)
    try:
        schedlab.replay(**options)
    finally:
        sys.setprofile(None)
    return seen


@pytest.mark.parametrize("prefix_cache", [True, False])
def test_a_run_of_lengths_makes_no_call_per_request(tmp_path: Path, prefix_cache: bool) -> None:
    few, many = (write_trace(tmp_path / f"{rows}.csv", [(0, 40, 90)] * rows) for rows in (2, 40))
    rules = {"cost": "constant", "num_blocks": 50, "set": {"prefix_cache": prefix_cache}}
    calls(trace=few, **rules)
    assert calls(trace=few, **rules) == calls(trace=many, **rules)
