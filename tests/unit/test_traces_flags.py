"""Flags of `schedlab trace` that are out of range, or that would have no effect, are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from schedlab.errors import UsageError
from traces.commands import app

DATA = Path(__file__).parent / "data" / "traces"
AZURE = "azure-conv-like"


def refusal(*words: object) -> str:
    with pytest.raises(UsageError) as refused:
        CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    return str(refused.value)


def done(*words: object) -> None:
    assert CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False).exit_code == 0


@pytest.mark.parametrize(
    ("trace", "flags", "named"),
    [
        (DATA / "vidur.csv", ["--seed", "5"], "--seed has no effect"),
        (DATA / "vidur.csv", ["--seed", "0"], "--seed has no effect"),
        (AZURE, ["--rows", "9", "--strict"], "--strict has no effect"),
        (AZURE, ["--rows", "9", "--shift-negative"], "--shift-negative has no effect"),
    ],
)
def test_a_flag_that_changes_nothing_is_refused(tmp_path: Path, trace: object, flags: list[str], named: str) -> None:
    assert named in refusal("inspect", trace, *flags)
    assert named in refusal("convert", trace, tmp_path / "out.csv", *flags)
    assert list(tmp_path.iterdir()) == []


def test_a_seed_of_a_file_that_holds_drawn_rows_changes_nothing(tmp_path: Path) -> None:
    done("generate", tmp_path / "drawn.csv", "--rows", "3", "--rate", "1")
    assert "--seed has no effect" in refusal("inspect", tmp_path / "drawn.csv", "--seed", "1")
    done("convert", tmp_path / "drawn.csv", tmp_path / "again.csv", "--seed", "1", "--resample", "5")


def test_list_fetches_nothing(tmp_path: Path) -> None:
    assert "--list fetches nothing" in refusal("fetch", "mooncake-synthetic", "--list")
    assert "--list fetches nothing" in refusal("fetch", "--list", "--out", tmp_path)


@pytest.mark.parametrize("flag", ["--from-s", "--to-s"])
@pytest.mark.parametrize("value", ["nan", "inf", "1e30", "-1"])
def test_seconds_out_of_range_are_refused_by_the_name_of_their_flag(tmp_path: Path, flag: str, value: str) -> None:
    assert f"{flag} is {float(value):g}" in refusal("convert", DATA / "vidur.csv", tmp_path / "o.csv", flag, value)


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--rate-scale", "1e-300"], "146 years"),
        (["--resample", "9", "--seed", "-1"], "seed is -1"),
        (["--resample", "99999999999999999999"], "rows is 9"),
    ],
)
def test_an_extreme_transform_is_refused_and_leaves_no_file(tmp_path: Path, flags: list[str], named: str) -> None:
    assert named in refusal("convert", DATA / "vidur.csv", tmp_path / "out.csv", *flags)
    assert list(tmp_path.iterdir()) == []


def test_a_limit_beyond_any_trace_keeps_every_row(tmp_path: Path) -> None:
    done("convert", DATA / "vidur.csv", tmp_path / "out.csv", "--limit", "99999999999999999999")
    assert (tmp_path / "out.csv").is_file()


@pytest.mark.parametrize("name", ["file/out.csv", "x" * 300 + ".csv"])
def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot be written" in refusal("convert", DATA / "vidur.csv", tmp_path / name)


@pytest.mark.parametrize(("flag", "value"), [("--duration", "nan"), ("--duration", "1e300"), ("--rate", "inf")])
def test_servegen_is_not_drawn_for_ever(tmp_path: Path, flag: str, value: str) -> None:
    (tmp_path / "chunk-0-trace.csv").write_text("0,5,1,Gamma,1,1\n600,5,1,Gamma,1,1\n")
    (tmp_path / "chunk-0-dataset.json").write_text('{"0": {"input_tokens": "{5: 1.0}", "output_tokens": "{3: 1.0}"}}')
    assert f"is {float(value):g}" in refusal("inspect", tmp_path, flag, value)
