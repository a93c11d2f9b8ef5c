"""schedlab's own format: every way a file may be written, every way it may be wrong, and the round trip."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import random
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedlab.errors import UsageError
from traces.open import open_trace
from traces.options import ReadOptions
from traces.record import TraceRecord
from traces.trace import Trace
from traces.writers import write_trace

CSV = "arrival_ns,prompt_tokens,output_tokens\n0,10,1\n5,20,2\n9,30,0\n"
JSONL = "".join(
    f'{{"arrival_ns": {a}, "prompt_tokens": {p}, "output_tokens": {o}}}\n'
    for a, p, o in ((0, 10, 1), (5, 20, 2), (9, 30, 0))
)
EXPECTED = [TraceRecord(0, 10, 1), TraceRecord(5, 20, 2), TraceRecord(9, 30, 0)]
BOM = "\ufeff"
VARIANTS = {
    "LF": lambda text: text,
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "BOM": lambda text: BOM + text,
    "BOM and CRLF": lambda text: BOM + text.replace("\n", "\r\n"),
    "BOM and a quoted first header": lambda text: BOM + text.replace("arrival_ns,", '"arrival_ns",', 1),
    "no newline at the end": lambda text: text.rstrip("\n"),
    "a blank last line": lambda text: text + "\n",
}


def trace_of(tmp_path: Path, text: str, name: str = "t.txt", **options: object) -> Trace:
    path = tmp_path / name
    path.write_bytes(text.encode())
    return open_trace(path, options=ReadOptions(**options))  # type: ignore[arg-type]


def records_of(tmp_path: Path, text: str, **options: object) -> list[TraceRecord]:
    return list(trace_of(tmp_path, text, "t.txt", **options).records())


def refusal_of(tmp_path: Path, text: str, **options: object) -> str:
    with pytest.raises(UsageError) as error:
        records_of(tmp_path, text, **options)
    return str(error.value)


@pytest.mark.parametrize("base", [CSV, JSONL], ids=["csv", "jsonl"])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("entry", ["file", "gz", "stdin"])
def test_t01_every_spelling_of_a_file_reads_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: str, variant: str, entry: str
) -> None:
    data = VARIANTS[variant](base).encode()
    path = tmp_path / "trace"
    path.write_bytes(gzip.compress(data) if entry == "gz" else data)
    if entry == "stdin":
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    trace = open_trace("-" if entry == "stdin" else path)
    assert list(trace.records()) == EXPECTED
    assert list(trace.records()) == EXPECTED, "a second pass gives the same"


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_t02_negative_stamps_are_refused_with_their_row_or_shifted(tmp_path: Path, form: str) -> None:
    rows = [(-792, 1, 1), (-788, 1, 1), (0, 1, 1), (5, 1, 1)]
    if form == "csv":
        text = "arrival_ns,prompt_tokens,output_tokens\n" + "".join(f"{a},{p},{o}\n" for a, p, o in rows)
        line = 2
    else:
        text = "".join(f'{{"arrival_ns":{a},"prompt_tokens":{p},"output_tokens":{o}}}\n' for a, p, o in rows)
        line = 1
    assert f"t.txt:{line}: arrival_ns: -792 is negative" in refusal_of(tmp_path, text)
    shifted = records_of(tmp_path, text, shift_negative=True)
    assert [record.arrival_ns for record in shifted] == [0, 4, 792, 797]


@pytest.mark.parametrize(
    ("row", "field"),
    [("0,-1,1", "prompt_tokens"), ("0,0,1", "prompt_tokens"), ("0,1,-1", "output_tokens"), ("0,1,1.5", "output_tokens"),
     ("nan,1,1", "arrival_ns"), ("0,x,1", "prompt_tokens"), ("0,1", "row"), ("0,,1", "prompt_tokens"),
     ("0,1,99999999999999999999999", "output_tokens")],
)  # fmt: skip
def test_a_bad_value_is_refused_with_file_line_and_field(tmp_path: Path, row: str, field: str) -> None:
    message = refusal_of(tmp_path, f"arrival_ns,prompt_tokens,output_tokens\n0,1,1\n{row}\n", shift_negative=True)
    assert f"t.txt:3: {field}" in message


def test_an_unknown_field_is_refused_and_the_known_ones_are_listed(tmp_path: Path) -> None:
    assert "t.txt:1: colour: is not a field" in refusal_of(tmp_path, CSV.replace("tokens\n", "tokens,colour\n", 1))
    extra = JSONL + '{"arrival_ns":9,"prompt_tokens":1,"output_tokens":1,"size":2}\n'
    assert "t.txt:4: size: is not a field" in refusal_of(tmp_path, extra)


def test_content_of_no_known_format_is_refused_with_its_first_line(tmp_path: Path) -> None:
    message = refusal_of(tmp_path, "name;age\nx;3\n")
    assert "'name;age'" in message
    assert "Azure" in message
    assert "empty" in refusal_of(tmp_path, "\n\n")


@pytest.mark.parametrize(
    ("head", "advice"),
    [
        ("a,b", "has the columns arrival_ns,prompt_tokens,output_tokens. Known"),
        ("arrival_s,output_tokens,Input Tokens,who", "rename arrival_s to arrival_ns (whole nanoseconds), "
         "Input Tokens to prompt_tokens. Known"),
        ("timestamp,prompt_tokens", "rename timestamp to arrival_ns (whole nanoseconds) and add output_tokens. Known"),
        ("prompt_tokens,output_tokens", "in this file, add arrival_ns (whole nanoseconds). Known"),
        ('{"time": 0, "prompt_len": 3, "output_len": 1}', "prompt_len to prompt_tokens, output_len to output_tokens"),
    ],
)  # fmt: skip
def test_a_header_that_comes_near_is_told_what_to_rename(tmp_path: Path, head: str, advice: str) -> None:
    assert advice in refusal_of(tmp_path, f"{head}\n0,1,2\n")


def test_the_format_is_told_by_content_whatever_the_file_is_called(tmp_path: Path) -> None:
    assert list(trace_of(tmp_path, JSONL, "table.csv").records()) == EXPECTED
    assert list(trace_of(tmp_path, CSV, "table.json").records()) == EXPECTED


def test_a_cut_gzip_and_bytes_that_are_no_text_end_in_one_clear_message(tmp_path: Path) -> None:
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress((CSV + "9,7,7\n" * 500).encode())[:-9])
    with pytest.raises(UsageError, match="gzip data is cut or damaged"):
        list(open_trace(path).records())
    path.write_bytes(b"\xff\xfea\x00r\x00")
    with pytest.raises(UsageError, match="not UTF-8"):
        open_trace(path)
    with pytest.raises(UsageError, match="no such trace"):
        open_trace(tmp_path / "absent.csv")


def test_t13_rows_out_of_order_are_sorted_stably_and_counted_or_refused(tmp_path: Path) -> None:
    arrivals = [5, 0, 5, 3, 3]
    text = "arrival_ns,prompt_tokens,output_tokens\n" + "".join(f"{a},{row + 1},1\n" for row, a in enumerate(arrivals))
    trace = trace_of(tmp_path, text)
    assert [record[:2] for record in trace.records()] == [(0, 2), (3, 4), (3, 5), (5, 1), (5, 3)]
    assert trace.report.reordered_rows == 2
    assert "2 rows arrive before the row above" in refusal_of(tmp_path, text, strict=True)


def test_t13_a_shuffled_file_reads_as_the_sorted_one(tmp_path: Path) -> None:
    ordered = [(row * 7, row + 1) for row in range(2797)]
    shuffled = ordered[:]
    random.Random(5).shuffle(shuffled)
    header = "arrival_ns,prompt_tokens,output_tokens\n"
    texts = [header + "".join(f"{a},{p},0\n" for a, p in rows) for rows in (ordered, shuffled)]
    assert records_of(tmp_path, texts[0]) == records_of(tmp_path, texts[1])
    assert trace_of(tmp_path, texts[0]).report.reordered_rows == 0


def test_later_turns_of_a_closed_loop_follow_their_session(tmp_path: Path) -> None:
    text = (
        "arrival_ns,prompt_tokens,output_tokens,session,turn,think_ns\n"
        "50,1,1,late,0,\n0,2,1,early,0,\n0,3,1,late,1,7\n0,4,1,early,1,8\n0,5,1,early,2,9\n"
    )
    trace = trace_of(tmp_path, text)
    assert trace.closed_loop
    assert [record.prompt_tokens for record in trace.records()] == [2, 4, 5, 1, 3]


def test_a_turn_that_waits_for_nothing_is_refused(tmp_path: Path) -> None:
    text = "arrival_ns,prompt_tokens,output_tokens,session,think_ns\n0,1,1,a,5\n"
    assert "t.txt:2: think_ns: session 'a' has no turn" in refusal_of(tmp_path, text)


def test_ids_without_a_block_size_and_too_many_ids_are_refused(tmp_path: Path) -> None:
    head = "arrival_ns,prompt_tokens,output_tokens,hash_ids,hash_block_tokens\n"
    assert "hash_block_tokens" in refusal_of(tmp_path, head + "0,10,1,1 2,\n")
    assert "3 ids, but 10 prompt tokens fill 2 blocks" in refusal_of(tmp_path, head + "0,10,1,1 2 3,5\n")


TOKENS = st.integers(0, 10**9)
RECORDS = st.builds(
    TraceRecord,
    arrival_ns=st.integers(0, 2**60),
    prompt_tokens=st.integers(10_000, 10**9),
    output_tokens=TOKENS,
    session=st.text(st.characters(codec="utf-8"), max_size=5),
    turn=st.integers(0, 99),
    think_ns=st.just(-1),
    tenant=st.sampled_from(["", "a", 'b,"c"', "7"]),
    priority=st.integers(-5, 5),
    max_tokens=st.integers(-1, 100),
    hash_ids=st.none() | st.lists(st.integers(0, 2**40), max_size=4).map(tuple),
    hash_block_tokens=st.just(16),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(RECORDS, min_size=1, max_size=8), st.sampled_from(["t.csv", "t.jsonl", "t.csv.gz", "t.jsonl.gz"]))
def test_what_is_written_is_read_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, rows: list[TraceRecord], name: str
) -> None:
    path = tmp_path_factory.mktemp("round") / name
    if ".csv" in name:
        rows = [row._replace(session="s" + str(len(row.session))) for row in rows]
    rows.sort(key=lambda row: row.arrival_ns)
    first = trace_of(path.parent, "".join(_as_json(row) for row in rows), "first")
    assert list(first.records()) == rows
    assert write_trace(first, path) == len(rows)
    assert list(open_trace(path).records()) == rows


def _as_json(record: TraceRecord) -> str:
    return json.dumps({name: value for name, value in record._asdict().items() if value is not None}) + "\n"


def test_a_closed_loop_survives_the_round_trip(tmp_path: Path) -> None:
    text = "arrival_ns,prompt_tokens,output_tokens,session,turn,think_ns\n0,2,1,a,0,\n0,4,1,a,1,0\n9,4,1,b,0,\n"
    trace = trace_of(tmp_path, text)
    for name in ("t.csv", "t.jsonl"):
        write_trace(trace, tmp_path / name)
        again = open_trace(tmp_path / name)
        assert list(again.records()) == list(trace.records())
        assert again.closed_loop


def test_a_session_that_csv_cannot_hold_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, '{"arrival_ns":0,"prompt_tokens":1,"output_tokens":1,"session":"a\\nb"}\n')
    with pytest.raises(UsageError, match="write JSONL instead"):
        write_trace(trace, tmp_path / "t.csv")
    assert not list(tmp_path.glob("t.csv*"))
    write_trace(trace, tmp_path / "t.jsonl")
    assert next(open_trace(tmp_path / "t.jsonl").records()).session == "a\nb"


def test_a_place_or_a_name_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, CSV)
    with pytest.raises(UsageError, match=r"must end in \.csv"):
        write_trace(trace, tmp_path / "t.parquet")
    with pytest.raises(UsageError, match="cannot be written"):
        write_trace(trace, tmp_path / "absent" / "t.csv")


@pytest.mark.parametrize("name", ["m.csv", "m.jsonl.gz"])
def test_a_modelled_trace_stays_one_when_it_is_written(tmp_path: Path, name: str) -> None:
    model = open_trace("azure-conv-like", options=ReadOptions(rows=50))
    write_trace(model, tmp_path / name)
    again = open_trace(tmp_path / name)
    assert again.is_model
    assert any("modelled, not original" in note for note in again.report.notes)
    assert list(again.records()) == list(model.records())
    assert not trace_of(tmp_path, CSV).is_model


def test_the_digest_is_that_of_the_bytes_as_given(tmp_path: Path) -> None:
    data = gzip.compress(CSV.encode(), mtime=0)
    (tmp_path / "t.gz").write_bytes(data)
    assert open_trace(tmp_path / "t.gz").sha256 == hashlib.sha256(data).hexdigest()
