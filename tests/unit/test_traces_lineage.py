"""A written trace says what it comes from and what was done to it; other people's comments are not taken for that."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from schedlab.errors import UsageError
from tests.unit.replay_helpers import read, schedlab, small_trace
from traces import transforms
from traces.open import open_trace
from traces.options import ReadOptions
from traces.writers import write_trace

DATA = Path(__file__).parent / "data" / "traces"
OWN = "arrival_ns,prompt_tokens,output_tokens\n0,10,1\n"
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,10,1\n"
VIDUR = "arrived_at,num_prefill_tokens,num_decode_tokens\n0,10,1\n"
JSONL = '{"arrival_ns":0,"prompt_tokens":10,"output_tokens":1}\n'
MOONCAKE = '{"timestamp":0,"input_length":10,"output_length":1,"hash_ids":[3]}\n'


def title(path: Path) -> str:
    trace = open_trace(path)
    return trace.lineage.title(trace.is_model)


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl.gz"])
def test_a_plain_conversion_stays_original_and_names_its_source(tmp_path: Path, name: str) -> None:
    original = open_trace(DATA / "burstgpt_v1.csv")
    write_trace(original, tmp_path / name)
    again = open_trace(tmp_path / name)
    assert title(tmp_path / name) == "original trace, converted from burstgpt_v1.csv"
    assert again.lineage.sha256 == original.sha256 != again.sha256
    assert again.report.notes == original.report.notes
    assert list(again.records()) == list(original.records())


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl.gz"])
def test_a_transformed_trace_is_derived_however_often_it_is_converted(tmp_path: Path, name: str) -> None:
    write_trace(transforms.scale_rate(open_trace(DATA / "burstgpt_v1.csv"), 2), tmp_path / "first.csv")
    write_trace(transforms.cap(open_trace(tmp_path / "first.csv"), output_tokens=9), tmp_path / "second.csv")
    write_trace(open_trace(tmp_path / "second.csv"), tmp_path / name)
    assert (
        title(tmp_path / name)
        == "derived from burstgpt_v1.csv by scaling its rate by 2, then cutting outputs to 9 tokens"
    )


def test_every_transform_says_what_it_does(tmp_path: Path) -> None:
    base = open_trace(DATA / "vidur.csv")
    done = {
        "keeping the first 1 row": transforms.limit(base, 1),
        "keeping rows 1:": transforms.slice_rows(base, 1),
        "keeping rows 0:2": transforms.slice_rows(base, 0, 2),
        "keeping seconds 0.5 on": transforms.slice_time(base, 5 * 10**8),
        "keeping seconds 0 to 2": transforms.slice_time(base, 0, 2 * 10**9),
        "cutting prompts to 5 tokens and outputs to 3 tokens": transforms.cap(base, 5, 3),
        "numbering sessions, tenants and blocks anew": transforms.anonymise(base),
    }
    for doing, trace in done.items():
        assert trace.lineage.title(trace.is_model) == f"derived from vidur.csv by {doing}"
    drawn = transforms.resample(base, 7, seed=3)
    assert drawn.lineage.title(drawn.is_model) == (
        "modelled trace, derived from vidur.csv by drawing 7 rows anew with seed 3"
    )


def test_a_merge_names_its_parts_and_what_was_done_to_them(tmp_path: Path) -> None:
    parts = [open_trace(DATA / "vidur.csv"), transforms.limit(open_trace(DATA / "burstgpt_v1.csv"), 2)]
    write_trace(transforms.merge(parts), tmp_path / "out.csv")
    assert title(tmp_path / "out.csv") == (
        "derived from vidur.csv + burstgpt_v1.csv (derived from burstgpt_v1.csv by keeping the first 2 rows) "
        "by merging them"
    )


def test_a_model_stays_one_through_transforms(tmp_path: Path) -> None:
    model = open_trace("azure-conv-like", options=ReadOptions(rows=20))
    write_trace(transforms.scale_rate(model, 3), tmp_path / "out.csv")
    assert title(tmp_path / "out.csv") == "modelled trace, derived from azure-conv-like by scaling its rate by 3"


def test_replay_and_inspect_say_what_a_trace_is_derived_from(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    source, derived, plain = small_trace(tmp_path / "source.csv"), tmp_path / "derived.csv", tmp_path / "plain.csv"
    for out, *flags in ((derived, "--rate-scale", 2), (plain,)):
        assert schedlab(monkeypatch, capsys, "trace", "convert", source, out, *flags).code == 0
    said = {
        source: "original trace",
        plain: "original trace, converted from source.csv",
        derived: "derived from source.csv by scaling its rate by 2",
    }
    for path, words in said.items():
        replayed = schedlab(monkeypatch, capsys, "replay", path, "--rate-scale", 4, "--out", tmp_path / "out")
        assert f"note: {words}, sha256" in replayed.out
        assert f"{path.name}: {words}, format" in schedlab(monkeypatch, capsys, "trace", "inspect", path).out
        facts = json.loads(schedlab(monkeypatch, capsys, "trace", "inspect", path, "--json").out)["trace"]
        assert facts["kind"] == ("derived" if path == derived else "original")
        assert read(tmp_path / "out", "config.json")["trace"]["is_model"] is False


@pytest.mark.parametrize(
    "text", [OWN, AZURE, VIDUR, JSONL, MOONCAKE], ids=["own", "azure", "vidur", "jsonl", "mooncake"]
)
@pytest.mark.parametrize("above", ["# made by hand\n", "#a, b\n\n# c\n", '# {"other": 1}\n'])
def test_comments_above_a_known_header_are_skipped(tmp_path: Path, text: str, above: str) -> None:
    (tmp_path / "t").write_text(above + text)
    trace = open_trace(tmp_path / "t")
    assert [record[1:3] for record in trace.records()] == [(10, 1)]
    assert title(tmp_path / "t") == "original trace"


def test_a_text_that_begins_with_a_comment_is_of_no_known_format(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("# a title\n\nSome words.\n")
    with pytest.raises(UsageError, match=r"not a known trace format.*'Some words\.'"):
        open_trace(tmp_path / "t")
    (tmp_path / "t").write_text("# only\n# comments\n")
    with pytest.raises(UsageError, match=r"not a known trace format.*'# only'"):
        open_trace(tmp_path / "t")


@pytest.mark.parametrize(
    "damaged", ['{"schedlab_modelled": 3}', '{"schedlab_modelled": ["a"', '{"schedlab_converted": [], "source": 1}']
)
def test_a_damaged_mark_is_refused_since_a_model_must_not_pass_as_an_original(tmp_path: Path, damaged: str) -> None:
    for above, text in ((f"# {damaged}\n", OWN), (f"{damaged}\n", JSONL)):
        (tmp_path / "t").write_text(above + text)
        with pytest.raises(UsageError, match="marks a trace of schedlab, but is damaged"):
            open_trace(tmp_path / "t")
