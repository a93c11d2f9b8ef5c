"""Trace readers on any bytes: records that add up, or one refusal that names the file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedlab.errors import UsageError
from tests.fuzz.bounded import answer_or_refusal
from tests.fuzz.values import ODD_TEXTS, SCALARS, VALUES, damaged
from tests.property.effort import examples
from traces.open import open_trace
from traces.record import TraceRecord

DATA = Path(__file__).parent.parent / "unit" / "data" / "traces"
SAMPLES = {path.name: path.read_bytes() for path in sorted(DATA.iterdir()) if path.name != "vidur_lengths.csv"}
OWN_CSV = b"arrival_ns,prompt_tokens,output_tokens,session,hash_ids\n0,1200,80,a,\n350000000,64,500,a,\n"
AZURE = b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,374,44\n2023-11-16 18:15:50.95,396,109\n"
MOONCAKE = b'{"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2, 3]}\n'
SAMPLES.update({"own.csv": OWN_CSV, "azure.csv": AZURE, "mooncake.jsonl": MOONCAKE})
COLUMNS = sorted(
    {
        name.strip('" ')
        for content in SAMPLES.values()
        for name in content.split(b"\n")[0].decode().replace("{", ",").replace(":", ",").split(",")
        if name.strip('" ').isidentifier()
    }
)


def read(path: Path, content: bytes) -> list[TraceRecord] | UsageError:
    """All records of a file with that content; what the reader says of them must be true."""
    path.write_bytes(content)

    def records() -> list[TraceRecord]:
        trace = open_trace(path)
        found = list(trace.records())
        assert trace.report.add_up() and len(found) == trace.scan().rows
        return found

    found = answer_or_refusal(records)
    if isinstance(found, UsageError):
        assert str(path) in str(found)
        return found
    assert all(one.arrival_ns >= 0 and one.prompt_tokens >= 1 and one.output_tokens >= 0 for one in found)
    return found


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "trace"


@examples(150)
@given(st.binary(max_size=400))
def test_any_bytes(file: Path, content: bytes) -> None:
    read(file, content)


@examples(60)
@given(content=st.binary(max_size=200), good=st.sampled_from(list(SAMPLES.values())))
def test_any_bytes_in_a_gzip_stream_that_breaks_off(file: Path, content: bytes, good: bytes) -> None:
    packed = gzip.compress(good + content, mtime=0)
    read(file, packed)
    assert isinstance(read(file, packed[: len(packed) // 2]), UsageError)


@pytest.mark.parametrize("name", SAMPLES)
@examples(40)
@given(data=st.data())
def test_damaged_samples(file: Path, name: str, data: st.DataObject) -> None:
    read(file, data.draw(damaged(SAMPLES[name])))


@examples(150)
@given(st.lists(st.dictionaries(st.sampled_from(COLUMNS), VALUES, min_size=1, max_size=8), min_size=1, max_size=4))
def test_objects_with_known_fields_and_any_values(file: Path, rows: list[dict[str, object]]) -> None:
    read(file, "".join(json.dumps(row) + "\n" for row in rows).encode())


@examples(150)
@given(
    names=st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=9),
    rows=st.lists(st.lists(st.one_of(SCALARS, ODD_TEXTS), max_size=9), max_size=4),
)
def test_tables_with_known_columns_and_any_cells(file: Path, names: list[str], rows: list[list[object]]) -> None:
    lines = [",".join(names), *(",".join(map(str, row)) for row in rows)]
    read(file, "\n".join(lines).encode("utf-8", "surrogatepass"))
