"""The table of requests: null for what did not happen, ordered rows, the same bytes for the same rows."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from experiments.metrics.requests import COLUMNS, RequestTable
from experiments.metrics.tables import ROWS_PER_GROUP
from schedlab.errors import UsageError
from schedlab.events import EventBus, Finished, Refused
from schedlab.pace import ns_to_quanta
from schedlab.request import FinishReason, Prompt, Request
from schedlab.sequence import Sequence
from tests.event_script import EventScript


def ended(request_id: int, arrival_ns: int, session: str = "") -> Finished:
    sequence = Sequence(Request(request_id, Prompt(5), 8, arrival_ns, session=session), request_id, 8)
    return Finished(arrival_ns + 10, sequence, FinishReason.LENGTH)


def small_table() -> RequestTable:
    table = RequestTable()
    bus = EventBus()
    bus.add(table)
    script = EventScript(bus)
    script.wait(ns_to_quanta(100))
    first = script.arrive(6, tenant="red", session="s1")
    waiting = script.arrive(3)
    script.refuse(999)
    script.admit(first)
    script.chunk(first, 6, ns_to_quanta(40), with_decode=False)
    script.decode(3, ns_to_quanta(10))
    script.preempt(first)
    script.finish(waiting, FinishReason.TIMEOUT)
    script.finish(first, FinishReason.CANCELLED)
    return table


def test_rows_hold_stamps_counts_and_words() -> None:
    frame = small_table().to_frame()
    assert list(frame.columns) == list(COLUMNS)
    assert frame.iloc[0].to_dict() == {
        "request_id": 0, "arrival_ns": 100, "admitted_ns": 100, "first_token_ns": 140, "finished_ns": 170,
        "prompt_tokens": 6, "output_tokens": 4, "cached_tokens": 0, "preemptions": 1, "swaps": 0,
        "finish_reason": "cancelled", "tenant": "red", "session": "s1",
    }  # fmt: skip


def test_stamps_of_what_did_not_happen_are_null(tmp_path: Path) -> None:
    table = small_table()
    frame = table.to_frame()
    assert frame["admitted_ns"].isna().tolist() == [False, True, True]
    assert frame["first_token_ns"].isna().tolist() == [False, True, True]
    assert frame["finished_ns"].tolist() == [170, 170, 100]
    table.write_parquet(tmp_path / "requests.parquet")
    columns = pq.read_table(tmp_path / "requests.parquet").to_pydict()
    assert columns["first_token_ns"] == [140, None, None]
    assert columns["finish_reason"] == ["cancelled", "timeout", "refused"]


def test_a_refusal_is_one_row_even_if_it_is_reported_as_an_end_too() -> None:
    table = RequestTable()
    sequence = ended(1, 5).sequence
    table.on_refused(Refused(5, sequence, "too long"))
    table.on_finished(Finished(5, sequence, FinishReason.REFUSED))
    assert len(table) == 1


def test_rows_are_by_arrival_then_id() -> None:
    table = RequestTable()
    for request_id, arrival_ns in ((5, 30), (9, 10), (2, 30), (1, 40)):
        table.on_finished(ended(request_id, arrival_ns))
    assert table.to_frame()["request_id"].tolist() == [9, 2, 5, 1]


def test_a_table_can_grow_after_it_was_read() -> None:
    table = RequestTable()
    table.on_finished(ended(1, 5))
    table.to_frame()
    table.on_finished(ended(2, 6))
    assert len(table.to_frame()) == 2


def test_an_empty_table_has_its_columns(tmp_path: Path) -> None:
    table = RequestTable()
    assert list(table.to_frame().columns) == list(COLUMNS)
    table.write_parquet(tmp_path / "empty.parquet")
    assert pd.read_parquet(tmp_path / "empty.parquet").shape == (0, len(COLUMNS))


def test_many_rows_are_written_whole_and_with_the_same_bytes(tmp_path: Path) -> None:
    count = ROWS_PER_GROUP + 10
    paths = [tmp_path / "one.parquet", tmp_path / "two.parquet"]
    for path in paths:
        table = RequestTable()
        for number in range(count):
            table.on_finished(ended(number, count - number, session=f"s{number % 1000}"))
        table.write_parquet(path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    read = pq.read_table(paths[0])
    assert read["arrival_ns"].to_pylist() == list(range(1, count + 1))
    assert read["session"][0].as_py() == f"s{(count - 1) % 1000}"


def test_an_unwritable_path_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot write"):
        RequestTable().write_parquet(tmp_path / "absent" / "requests.parquet")
