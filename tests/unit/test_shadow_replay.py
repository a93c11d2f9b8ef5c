"""`--check=shadow`: the same bytes, in any replay; what it finds ends the run with the name of the request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import schedlab
from schedlab.core import swapping
from schedlab.errors import UsageError
from tests.unit.replay_helpers import same_bytes, session_trace, small_trace
from tests.unit.replay_helpers import schedlab as command

SWAPS = {"preemption": "cheapest", "swap_host_gib": 1, "swap_disk_gib": 1, "prefix_cache": True}
WINDOWS = {"window_blocks": 8, "swap_disk_gib": 4}


@pytest.mark.parametrize("settings", [{}, SWAPS, WINDOWS], ids=["plain", "swaps", "windows"])
@pytest.mark.parametrize("make_trace", [small_trace, session_trace])
def test_a_shadowed_run_writes_the_same_bytes_leaping_and_stepping(
    settings: dict[str, Any], make_trace: Any, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"num_blocks": 50, "set": settings, "events": True, "cost": "constant"}
    trace = make_trace(tmp_path / "trace.csv")
    for name, how in (("plain", {}), ("leap", {"check": "shadow"}), ("step", {"check": "shadow", "leap": False})):
        schedlab.replay(trace, out=tmp_path / name, **how, **options)
    assert not same_bytes(tmp_path / "plain", tmp_path / "leap")
    assert not same_bytes(tmp_path / "plain", tmp_path / "step")


def test_faults_may_be_injected_under_the_shadow(tmp_path: Path) -> None:
    faults = {
        "copy_failure": [{"chance": 0.3, "seed": 1, "links": ["d2h", "h2d"]}],
        "step_failure": [{"steps": [30, 60]}],
    }
    settings = {"preemption": "host", "swap_host_gib": 1, "prefix_cache": False}
    trace = small_trace(tmp_path / "trace.csv")
    result = schedlab.replay(trace, cost="constant", num_blocks=50, set=settings, faults=faults, check="shadow")
    assert result.summary["faults"]["failed_steps"] == 2
    assert result.summary["faults"]["failed_copies"] > 0


def test_hybrid_models_run_under_the_shadow(tmp_path: Path) -> None:
    trace = session_trace(tmp_path / "trace.csv")
    settings = {"prefix_cache": True, "snapshot_slots": 4, "snapshot_min_tokens": 16}
    result = schedlab.replay(trace, model="nemotron-h-8b", num_blocks=200, set=settings, check="shadow")
    assert result.summary["requests"]["finished"]["stop"] == 7


def test_a_defect_ends_the_command_with_its_law(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = swapping.restore

    def restore(core: Any, sequence: Any) -> None:
        real(core, sequence)
        sequence.block_table.reverse()

    monkeypatch.setattr(swapping, "restore", restore)
    trace = small_trace(tmp_path / "trace.csv")
    flags = ("--cost", "constant", "--num-blocks", 50, "--out", tmp_path / "run")
    settings = ("--set", "preemption=host", "--set", "swap_host_gib=1", "--set", "prefix_cache=false")
    laws_only = command(monkeypatch, capsys, "replay", "--check", trace, *flags, *settings)
    assert laws_only.code == 0, "accounting is right, whatever lies in the blocks"
    shadowed = command(monkeypatch, capsys, "replay", trace, "--check=shadow", *flags, *settings)
    assert shadowed.code == 1
    assert "outputs_equal_the_solo_run: " in shadowed.err and "Found: request " in shadowed.err


def test_bare_check_takes_no_value_and_other_checks_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = small_trace(tmp_path / "trace.csv")
    for flag in ("--check", "--check=laws"):
        assert command(monkeypatch, capsys, "replay", flag, trace, "--out", tmp_path / flag).code == 0
    refused = command(monkeypatch, capsys, "replay", trace, "--check=everything")
    assert refused.code == 2 and "laws or shadow" in refused.err
    with pytest.raises(UsageError, match="laws or shadow"):
        schedlab.replay(trace, check="everything")
