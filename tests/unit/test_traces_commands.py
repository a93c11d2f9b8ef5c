"""`schedlab trace`: what a person types and reads."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from http.client import IncompleteRead
from pathlib import Path

import pytest
from typer.testing import CliRunner

from schedlab.errors import UsageError
from traces import fetch as fetching
from traces.catalogue import Original, catalogue
from traces.commands import app
from traces.open import open_trace

DATA = Path(__file__).parent / "data" / "traces"


def run(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_inspect_json_says_what_was_read_kept_and_dropped() -> None:
    found = json.loads(run("inspect", DATA / "lmcache.jsonl", "--json"))
    assert found["report"]["rows_read"] == 3
    assert found["report"]["dropped"] == {"empty prompt": 1}
    assert found["rows"] == 2
    assert found["prefix"] == {"input_tokens": 164, "hit_tokens": 64, "blocks": 2}
    assert found["quantiles"]["prompt_tokens"] == {"p50": 64, "p90": 100, "p95": 100, "p99": 100, "max": 100}
    assert found["trace"]["kind"] == "original"


def test_inspect_says_plainly_that_a_trace_is_modelled() -> None:
    text = run("inspect", "azure-conv-like")
    assert "modelled trace" in text
    assert "modelled, not original" in text
    assert "19,366" in text


def test_inspect_of_a_table_without_rows_has_no_numbers_to_divide(tmp_path: Path) -> None:
    path = tmp_path / "empty.csv"
    path.write_text("arrival_ns,prompt_tokens,output_tokens\n")
    found = json.loads(run("inspect", path, "--json"))
    assert (found["rows"], found["gap_cv"], found["peak_to_mean"]) == (0, None, None)
    assert "rows read" in run("inspect", path)


def test_the_fullest_second_is_never_below_the_mean_one(tmp_path: Path) -> None:
    path = tmp_path / "tiny.csv"
    for arrivals, peak, ratio in (((0, 5 * 10**8), 2, 1.0), ((0, 10**9, 10**9, 4 * 10**9), 2, 2.5)):
        path.write_text("arrival_ns,prompt_tokens,output_tokens\n" + "".join(f"{at},1,1\n" for at in arrivals))
        found = json.loads(run("inspect", path, "--json"))
        assert (found["peak_per_s"], found["peak_to_mean"]) == (peak, ratio)
    path.write_text("arrival_ns,prompt_tokens,output_tokens\n7,1,1\n")
    assert "1 arrival," in run("inspect", path)


def test_convert_writes_what_its_transforms_leave(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    text = run("convert", DATA / "burstgpt_v1.csv", out, "--limit", 2, "--rate-scale", 2, "--cap-prompt", 500)
    assert [record[:3] for record in open_trace(out).records()] == [(0, 472, 18), (20 * 10**9, 500, 230)]
    assert "by keeping the first 2 rows, then scaling its rate by 2, then cutting prompts to 500 tokens (5 re" in text
    assert "2 rows, derived from burstgpt_v1.csv by" in text
    assert "dropped: past the limit of 2: 1" in text


def test_convert_merges_slices_and_anonymises(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl.gz"
    run(
        "convert",
        DATA / "vidur.csv",
        out,
        "--merge",
        DATA / "dynamo.jsonl",
        "--from-s",
        0.04,
        "--to-s",
        1,
        "--anonymise",
    )
    assert [(r.arrival_ns, r.session) for r in open_trace(out).records()] == [
        (10**7, "s0"),
        (0, "s0"),
        (46 * 10**7, ""),
    ]


def test_a_trace_that_is_written_replaces_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace, other = tmp_path / "t.csv", tmp_path / "other.csv"
    for path in (trace, other):
        path.write_text("arrival_ns,prompt_tokens,output_tokens\n0,1,1\n")
    before = trace.read_bytes()
    monkeypatch.chdir(tmp_path)
    for words in (
        ["convert", trace, "t.csv"],
        ["convert", other, "--merge", trace, "t.csv"],
        ["convert", DATA / "vidur.csv", "t.csv"],
        ["generate", "t.csv", "--rows", 3, "--rate", 1],
    ):
        with pytest.raises(UsageError, match=r"t\.csv: exists already; give another name"):
            run(*words)
    assert trace.read_bytes() == before
    run("convert", trace, "new.csv")


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (("--from-s", 900), "keeping seconds 900 on leaves nothing of it"),
        (("--to-s", 900, "--first-row", 77), "keeping seconds 0 to 900, then keeping rows 77: leaves nothing of it"),
    ],
)
def test_a_slice_without_rows_is_named_and_not_written(flags: tuple[object, ...], named: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"vidur.csv: [0-9]+ rows were read, and {named}; see schedlab trace inspect"):
        run("convert", DATA / "vidur.csv", tmp_path / "out.csv", *flags)
    assert not list(tmp_path.iterdir())


def test_generate_writes_a_trace_that_says_it_is_modelled(tmp_path: Path) -> None:
    out = tmp_path / "g.csv"
    run("generate", out, "--rate", 10, "--rows", 100, "--lengths", "fixed:64,8", "--seed", 3)
    trace = open_trace(out)
    assert {record[1:3] for record in trace.records()} == {(64, 8)}
    assert trace.is_model


@pytest.mark.parametrize("flag", ["--rows", "--rate", "--duration"])
def test_a_flag_that_no_source_heeds_is_refused(flag: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"{flag} has no effect"):
        run("inspect", DATA / "vidur.csv", flag, 5)
    with pytest.raises(UsageError, match=f"{flag} has no effect"):
        run("convert", DATA / "vidur.csv", tmp_path / "out.csv", "--merge", DATA / "dynamo.jsonl", flag, 5)


def test_convert_applies_its_transforms_in_the_order_of_its_help(tmp_path: Path) -> None:
    order = [
        "--merge", "--from-s", "--to-s", "--first-row", "--limit", "--rate-scale", "--cap-prompt", "--resample",
        "--anonymise",
    ]  # fmt: skip
    text = run("convert", "--help")
    assert [text.index(flag) for flag in order] == sorted(text.index(flag) for flag in order)
    run("convert", DATA / "burstgpt_v1.csv", tmp_path / "out.csv", "--to-s", 100, "--rate-scale", 2)
    assert max(record.arrival_ns for record in open_trace(tmp_path / "out.csv").records()) <= 50 * 10**9


def test_fetch_lists_every_public_trace_with_its_licence() -> None:
    text = run("fetch", "--list")
    assert all(name in text for name in catalogue()), "a name is cut"
    assert text.count("Apache-2.0") >= 5
    for name, files in catalogue().items():
        assert all(len(original.sha256) == 64 for original in files), name
        assert all(original.address.startswith("https://raw.githubusercontent.com/") for original in files)


def local(path: Path, sha256: str) -> Original:
    known = catalogue()["azure-conv-2023"][0]
    return Original("x", "x.csv", path.as_uri(), sha256, known.repository)


def test_fetch_keeps_a_file_only_when_its_bytes_are_right(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"abc")
    good = local(source, hashlib.sha256(b"abc").hexdigest())
    target = fetching.fetch(good, tmp_path / "new" / "folder")
    assert target.read_bytes() == b"abc"
    source.unlink()
    assert fetching.fetch(good, tmp_path / "new" / "folder") == target, "what is there already is not fetched again"
    source.write_bytes(b"abd")
    target.unlink()
    with pytest.raises(UsageError, match="other bytes than expected"):
        fetching.fetch(good, tmp_path / "new" / "folder")
    assert not list((tmp_path / "new" / "folder").iterdir())


def test_a_fetch_that_fails_names_the_address_in_one_line(tmp_path: Path) -> None:
    missing = local(tmp_path / "absent", "0" * 64)
    with pytest.raises(UsageError) as error:
        fetching.fetch(missing, tmp_path)
    assert missing.address in str(error.value)
    assert "by hand" in str(error.value)
    assert "\n" not in str(error.value)


def test_fetch_of_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="known: azure-code-2023"):
        run("fetch", "nothing")


def test_the_commands_load_no_table_library_at_start_up() -> None:
    code = "import sys, traces.commands; print([m for m in ('numpy', 'pandas', 'traces.open') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "[]"


def test_names_and_notes_of_a_file_cannot_steer_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "\x1b[31mred\udcff.csv"
    mark = {"schedlab_modelled": ["a \x1b[2J note", "\ud800"]}
    path.write_text(f"# {json.dumps(mark)}\narrival_ns,prompt_tokens,output_tokens\n0,1,1\n")
    for words in (("inspect", path), ("convert", path, tmp_path / "\x1b[31mout.csv")):
        shown = run(*words)
        assert "note" in shown and "\x1b" not in shown


def test_a_download_that_breaks_off_is_told_by_its_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(*_: object, **__: object) -> None:
        raise IncompleteRead(b"half", 9)

    monkeypatch.setattr("urllib.request.urlopen", cut)
    with pytest.raises(UsageError, match=r"cannot be fetched .* by hand"):
        fetching.fetch(next(iter(catalogue().values()))[0], tmp_path)
    assert list(tmp_path.iterdir()) == []
