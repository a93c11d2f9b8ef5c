"""The readers of single files, on small samples made by hand; the same readers meet real files in test_traces_real."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from schedlab.errors import UsageError
from traces.open import open_trace
from traces.options import ReadOptions
from traces.record import TraceRecord
from traces.trace import Trace

DATA = Path(__file__).parent / "data" / "traces"
MS = 1_000_000
S = 1_000_000_000


def sample(name: str) -> Trace:
    return open_trace(DATA / name)


def jsonl(tmp_path: Path, *rows: dict[str, object]) -> Path:
    path = tmp_path / "rows"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_burstgpt_drops_failures_by_reason_and_starts_at_its_first_row() -> None:
    trace = sample("burstgpt_v1.csv")
    assert [record[:3] for record in trace.records()] == [
        (0, 472, 18),
        (40 * S, 1087, 230),
        (113 * S + S // 2, 417, 276),
    ]
    assert trace.report.rows_read == 5
    assert trace.report.dropped == {"failed: no response tokens": 1, "failed: no tokens at all": 1}
    assert trace.report.add_up()
    assert any("GPT-4 1" in note for note in trace.report.notes)


def test_burstgpt_v3_has_its_new_columns_in_the_middle() -> None:
    records = list(sample("burstgpt_v3.csv").records())
    assert [(r.prompt_tokens, r.output_tokens, r.session, r.turn) for r in records] == [
        (10, 20, "7", 0),
        (11, 21, "", 0),
        (40, 22, "7", 1),
    ]


def mooncake_row(tokens: int, ids: int, stamp: object = 0) -> dict[str, object]:
    return {"timestamp": stamp, "input_length": tokens, "output_length": 1, "hash_ids": list(range(ids))}


@pytest.mark.parametrize(("tokens", "ids"), [(1024, 2), (1537, 4), (2048, 4), (1, 1), (512, 1), (513, 2)])
def test_t09_the_right_number_of_ids_is_accepted(tmp_path: Path, tokens: int, ids: int) -> None:
    (record,) = open_trace(jsonl(tmp_path, mooncake_row(tokens, ids))).records()
    assert (record.prompt_tokens, record.hash_ids, record.hash_block_tokens) == (tokens, tuple(range(ids)), 512)


@pytest.mark.parametrize(("tokens", "ids", "expected"), [(20, 2, 1), (1025, 2, 3)])
def test_t09_another_number_of_ids_is_refused_with_row_and_count(
    tmp_path: Path, tokens: int, ids: int, expected: int
) -> None:
    path = jsonl(tmp_path, mooncake_row(1024, 2), mooncake_row(tokens, ids))
    with pytest.raises(UsageError, match=rf"rows:2: hash_ids: {ids} ids, {tokens} tokens need {expected} "):
        list(open_trace(path).records())


def test_mooncake_keeps_equal_stamps_in_file_order_and_refuses_negative_ones(tmp_path: Path) -> None:
    path = jsonl(tmp_path, mooncake_row(9, 1, 3), mooncake_row(8, 1, 3), mooncake_row(7, 1, 3.5))
    assert [r[:2] for r in open_trace(path).records()] == [(3 * MS, 9), (3 * MS, 8), (3 * MS + MS // 2, 7)]
    path = jsonl(tmp_path, mooncake_row(9, 1, -3), mooncake_row(8, 1, 0))
    with pytest.raises(UsageError, match="rows:1: timestamp: -3 is negative"):
        list(open_trace(path).records())
    shifted = open_trace(path, options=ReadOptions(shift_negative=True))
    assert [record.arrival_ns for record in shifted.records()] == [0, 3 * MS]


def test_a_row_with_a_delay_waits_for_the_turn_before_it() -> None:
    trace = sample("dynamo.jsonl")
    assert trace.closed_loop
    found = [(r.session, r.turn, r.arrival_ns, r.think_ns, r.prompt_tokens) for r in trace.records()]
    assert found == [
        ("a", 0, 0, -1, 600),
        ("a", 1, 0, 1500 * MS + MS // 2, 700),
        ("b", 0, 50 * MS, -1, 10),
        ("b", 1, 0, 20 * MS, 30),
    ]


def test_bailian_follows_the_chain_of_parents_to_the_session() -> None:
    trace = sample("bailian.jsonl")
    found = [(r.session, r.turn, r.arrival_ns, r.hash_ids) for r in trace.records()]
    assert found[:3] == [
        ("159", 0, 61_114 * MS, (1, 2, 3)),
        ("159", 1, 62 * S, (1, 2, 4)),
        ("159", 2, 63_500 * MS, (1, 2, 4)),
    ]
    assert found[3] == ("170", 0, 64 * S, (9,))
    assert any(note.startswith("1 later turns") for note in trace.report.notes)


def test_bailian_says_which_field_it_misses(tmp_path: Path) -> None:
    path = jsonl(tmp_path, {"chat_id": 1, "parent_chat_id": -1, "timestamp": 0, "output_length": 3, "hash_ids": []})
    with pytest.raises(UsageError, match="rows:1: input_length: is missing; the row has chat_id"):
        list(open_trace(path).records())


def test_lmcache_drops_empty_prompts_keeps_empty_outputs_and_sorts() -> None:
    trace = sample("lmcache.jsonl")
    assert [(r.arrival_ns, r.prompt_tokens, r.output_tokens, r.turn) for r in trace.records()] == [
        (0, 64, 0, 2),
        (2_000, 100, 5, 0),
    ]
    assert trace.report.dropped == {"empty prompt": 1}
    assert trace.report.reordered_rows == 1
    assert trace.report.add_up()


def test_vidur_reads_arrivals_and_refuses_lengths_without_them() -> None:
    assert [r[:3] for r in sample("vidur.csv").records()] == [(S // 2, 100, 10), (S + S // 4, 200, 20)]
    with pytest.raises(UsageError, match=r"trace generate --arrivals poisson .* --lengths"):
        sample("vidur_lengths.csv")


def test_vtc_takes_the_last_number_for_the_tenant_and_drops_refused_requests() -> None:
    trace = sample("vtc.json")
    assert [(r.arrival_ns, r.prompt_tokens, r.tenant) for r in trace.records()] == [
        (0, 13, "client-13"),
        (441_893_183, 456, "client-0"),
    ]
    assert list(trace.report.dropped.values()) == [1]
    assert trace.report.add_up()


@pytest.mark.parametrize(("name", "first"), [("llmservingsim.csv", 46_926_808), ("llmservingsim.jsonl", 101_537_000)])
def test_llmservingsim_is_read_from_a_table_and_from_jsonl(name: str, first: int) -> None:
    records = list(sample(name).records())
    assert len(records) == 2
    assert records[0].arrival_ns == first


def test_tracelab_thinks_from_the_last_event_to_the_last_input() -> None:
    trace = sample("tracelab.jsonl")
    assert trace.closed_loop
    assert list(trace.records()) == [
        TraceRecord(0, 100, 7, "early"),
        TraceRecord(0, 200, 8, "early", 1, 1500 * MS),
        TraceRecord(60 * S, 300, 9, "late"),
    ]


@pytest.mark.parametrize("name", sorted(path.name for path in DATA.iterdir() if path.name != "vidur_lengths.csv"))
def test_every_sample_adds_up_and_reads_twice_the_same(name: str) -> None:
    trace = sample(name)
    assert list(trace.records()) == list(trace.records())
    assert trace.report.add_up()
    assert trace.scan().rows == trace.report.rows_kept == sum(1 for _ in trace.records())


@pytest.mark.parametrize("line", ["{", "[1]", '{"timestamp": NaN, "input_length": 5, "output_length": 1}', "\x00"])
def test_a_broken_later_line_is_refused_with_its_number(tmp_path: Path, line: str) -> None:
    path = tmp_path / "rows"
    path.write_text(json.dumps(mooncake_row(5, 1)) + "\n" + line + "\n")
    with pytest.raises(UsageError, match="rows:2: "):
        list(open_trace(path).records())
