"""Damaged files: whatever a file holds, a reader gives records that add up or one clear refusal."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from schedlab.errors import UsageError
from traces.open import open_trace

DATA = Path(__file__).parent / "data" / "traces"
SAMPLES = sorted(path.name for path in DATA.iterdir() if path.name != "vidur_lengths.csv")
PIECES = [
    "",
    "-1",
    "0",
    "null",
    "true",
    '"x"',
    "[]",
    "{}",
    "1e400",
    "NaN",
    "9" * 30,
    "\n",
    ",",
    "\x00",
    "é",
    "1.5",
    '"',
    "}",
    "[1",
]


def damaged(text: str, generator: random.Random) -> str:
    """One stretch of the text replaced by something else, mostly whole values."""
    marks = [at for at, char in enumerate(text) if char in ':,{}[]"\n ']
    start = generator.choice(marks)
    stop = min(len(text), start + generator.choice([1, 2, 5, 12, 60]))
    return text[: start + 1] + generator.choice(PIECES) + text[stop:]


@pytest.mark.parametrize("name", SAMPLES)
def test_damage_ends_in_records_that_add_up_or_in_a_usage_error(tmp_path: Path, name: str) -> None:
    text = (DATA / name).read_text()
    generator = random.Random(name)
    path = tmp_path / "damaged"
    refused = 0
    for _ in range(120):
        broken = damaged(text, generator)
        path.write_text(broken)
        try:
            trace = open_trace(path)
            records = list(trace.records())
        except UsageError as error:
            refused += 1
            assert str(path) in str(error)
            continue
        assert trace.report.add_up(), broken
        assert all(r.arrival_ns >= 0 and r.prompt_tokens >= 1 and r.output_tokens >= 0 for r in records), broken
    assert refused, "some damage must be noticed"
