"""Progress on standard error, and values as they are typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.bar import progress
from experiments.values import duration_ns, pairs
from experiments.watch import Progress
from schedlab.errors import UsageError
from tests.unit.replay_helpers import schedlab, small_trace

HALF_WAY = Progress(done=50, total=100, output_tokens=30_000, simulated_ns=90_000_000_000, wall_s=3.0)


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "160")
    with progress(100) as show:
        show(HALF_WAY)
        out, err = capsys.readouterr()
    assert out == ""
    assert "50/100" in err and "simulated 90.0 s in 3.00 s, 10,000 tokens/s" in err and "ETA" in err


def test_a_pipe_gets_a_line_every_few_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(100) as show:
        for wall_s in (1.0, 2.5, 3.0, 6.0, 7.6, 9.0):
            show(HALF_WAY._replace(wall_s=wall_s))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2, "after two seconds, then five seconds later"
    assert lines[0] == ("replay: 50 of 100 requests, simulated 90.0 s in 2.50 s, 12,000 tokens/s, about 2.50 s left")


@pytest.mark.parametrize(
    ("text", "ns"),
    [("2s", 2 * 10**9), ("1.5ms", 1_500_000), ("250us", 250_000), ("7ns", 7), ("3m", 180 * 10**9), ("0.1s", 10**8)],
)
def test_durations_are_exact(text: str, ns: int) -> None:
    assert duration_ns("--slo", text) == ns


@pytest.mark.parametrize("text", ["2", "s", "2 s", "-2s", "2S", "2h", "1e3s", "2s3", "", "٢s", ".5s"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--slo"):
        duration_ns("--slo", text)


@pytest.mark.parametrize("items", [["a"], ["=1"], ["a="], ["a=1", "a=2"], [""]])
def test_pairs_have_one_name_and_one_value(items: list[str]) -> None:
    with pytest.raises(UsageError, match="--set"):
        pairs("--set", items)


def test_a_full_disk_is_one_line_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    out = tmp_path / "out"
    out.mkdir()
    (out / ".events.jsonl.part").symlink_to("/dev/full")
    ended = schedlab(
        monkeypatch, capsys, "replay", small_trace(tmp_path / "t.csv"), "--events", "--no-leap", "--out", out
    )
    assert ended.code == 2 and ended.err.count("\n") == 1
    assert "events.jsonl" in ended.err and "No space left" in ended.err
    assert list(out.iterdir()) == []


def test_a_window_of_time_is_what_perfetto_shows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    trace = small_trace(tmp_path / "t.csv", 12)
    for name, flags in (("all", ()), ("part", ("--perfetto-window", "0.01-0.02"))):
        assert schedlab(monkeypatch, capsys, "replay", trace, *flags, "--out", tmp_path / name).code == 0
    whole, part = (tmp_path / name / "trace.perfetto.json" for name in ("all", "part"))
    assert 0 < part.stat().st_size < whole.stat().st_size
    configs = [(tmp_path / name / "config.json").read_bytes() for name in ("all", "part")]
    assert configs[0] == configs[1]
