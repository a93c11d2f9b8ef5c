"""Traces made to break a reader: each ends in one refusal that names the place, or is read as what it says."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from schedlab.errors import UsageError
from traces.open import open_trace
from traces.source import Source

HEADER = "arrival_ns,prompt_tokens,output_tokens\n"
ROW = '{"arrival_ns":0,"prompt_tokens":5,"output_tokens":5}\n'
DEEP = "[" * 100_000
AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens"

HOSTILE = [
    (f'{HEADER}0,10,"{"1" * 300_000}"\n', ":2: output_tokens"),
    (f'{HEADER}0,10,"5\n', ":2: output_tokens: '\"5"),
    (f'{{"arrival_ns":{DEEP}\n', "not a known trace format"),
    (f'{ROW}{{"arrival_ns":{DEEP}\n', ":2: not valid JSON"),
    (f'# {{"schedlab_modelled": {DEEP}\n{HEADER}', "is damaged"),
    (f'{{"schedlab_model": {DEEP}\n', "not a schedlab model"),
    (ROW[:-2] + ',"tenant":"\\ud800"}\n', ":1: tenant: '\\ud800' holds half a character"),
    (ROW[:-2] + ',"session":"\\udfff"}\n', ":1: session"),
    ("arrival_ns,prompt_tokens,output_tokens,output_tokens\n0,1,2,3\n", ":1: output_tokens: this column stands twice"),
    (f"{AZURE},GeneratedTokens\n2023-11-16 18:15:46.68,1,2,3\n", ":1: GeneratedTokens: this column stands twice"),
    ("arrived_at,num_prefill_tokens,num_decode_tokens,arrived_at\n1,2,3,4\n", ":1: arrived_at: this column stands"),
    (f"{AZURE}\n0001-01-01 00:00:00.0,1,2\n9999-12-31 00:00:00.0,1,2\n", "146 years"),
    ('{"timestamp":4611686018427387903,"input_length":1,"output_length":1}\n', ":1: timestamp"),
    ('{"timestamp":1e16,"input_length":1,"output_length":1}\n', ":1: timestamp"),
]


@pytest.mark.parametrize(("text", "named"), HOSTILE, ids=[named for _, named in HOSTILE])
def test_a_hostile_file_is_refused_in_a_short_message(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "trace"
    path.write_text(text)
    with pytest.raises(UsageError) as refused:
        open_trace(path).scan()
    assert named in str(refused.value)
    assert len(str(refused.value)) < len(str(path)) + 1_000


def test_an_event_that_is_no_object_is_refused(tmp_path: Path) -> None:
    events = [{"event_type": "user_message", "timestamp": "2026-06-01T05:40:20.151Z"}, ["x"]]
    row = {"session_id": "s", "round_index": 0, "input_tokens_total": 1, "output_tokens": 1, "timing_events": events}
    path = tmp_path / "trace"
    path.write_text(json.dumps(row))
    with pytest.raises(UsageError, match="timing_events"):
        open_trace(path).scan()


def test_an_integer_of_thousands_of_digits_is_no_session_document(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text('{"block_size":' + "9" * 5_000 + ',"hash_id_scope":"local","requests":[]}')
    with pytest.raises(UsageError, match="not valid JSON"):
        open_trace(path).scan()


def test_a_session_file_with_half_a_character_in_its_id_can_be_written_again(tmp_path: Path) -> None:
    request = {"t": 0, "in": 10, "out": 1, "hash_ids": []}
    path = tmp_path / "trace"
    path.write_text(json.dumps({"id": "\ud800", "block_size": 64, "hash_id_scope": "local", "requests": [request]}))
    assert [record.session for record in open_trace(path).records()] == ["?"]


def append(path: Path) -> None:
    with path.open("a") as file:
        file.write("5,1,1\n")


def swap(path: Path) -> None:
    other = path.with_name("other")
    other.write_text(f"{HEADER}9,9,9\n")
    other.replace(path)


@pytest.mark.parametrize("change", [append, swap])
def test_a_file_that_changes_between_two_passes_is_noticed(tmp_path: Path, change: Callable[[Path], None]) -> None:
    path = tmp_path / "trace"
    path.write_text(f"{HEADER}0,1,1\n1,1,1\n")
    trace = open_trace(path)
    assert trace.scan().rows == 2
    change(path)
    with pytest.raises(UsageError, match="the file changed while it was read"):
        list(trace.records())


def test_a_file_that_grows_during_a_pass_is_noticed_at_its_end(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text(f"{HEADER}0,1,1\n1,1,1\n")
    records = open_trace(path).records()
    next(records)
    append(path)
    with pytest.raises(UsageError, match="the file changed while it was read"):
        list(records)


def test_closed_standard_input_is_said_to_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(UsageError, match="standard input is closed"):
        Source.from_stdin()


def test_a_pipe_and_a_socket_exist_but_are_no_traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        for name in ("pipe", "socket"):
            with pytest.raises(UsageError, match="pipe a stream into - instead"):
                open_trace(name)
