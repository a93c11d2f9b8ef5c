"""Laws of the transforms."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedlab.errors import UsageError
from traces import transforms
from traces.open import open_trace
from traces.options import ReadOptions
from traces.record import TraceRecord
from traces.trace import Trace

CLOSED = (
    "arrival_ns,prompt_tokens,output_tokens,session,turn,think_ns,tenant,hash_ids,hash_block_tokens\n"
    "0,10,1,alice,0,,acme,7 9,8\n0,20,2,alice,1,100,acme,7 9 4,8\n50,30,3,bob,0,,other,7,8\n0,40,4,bob,1,200,other,,\n"
    "80,50,5,,0,,acme,,\n"
)


@pytest.fixture
def closed(tmp_path: Path) -> Trace:
    (tmp_path / "closed").write_text(CLOSED)
    return open_trace(tmp_path / "closed")


def trace_of(tmp_path: Path, arrivals: Sequence[int]) -> Trace:
    path = tmp_path / f"t{len(list(tmp_path.iterdir()))}"
    rows = "".join(f"{arrival},{row + 1},{row}\n" for row, arrival in enumerate(arrivals))
    path.write_text("arrival_ns,prompt_tokens,output_tokens\n" + rows)
    return open_trace(path)


def arrivals_of(trace: Trace) -> list[int]:
    return [record.arrival_ns for record in trace.records()]


@pytest.mark.parametrize(
    ("factor", "expected"), [(2.0, [0, 5, 15]), (0.5, [0, 20, 60]), (1.0, [0, 10, 30]), (0.1, [0, 100, 300])]
)
def test_t07_a_rate_scale_divides_gaps_and_keeps_the_origin_at_0(
    tmp_path: Path, factor: float, expected: list[int]
) -> None:
    base = trace_of(tmp_path, [1000, 1010, 1030])
    scaled = transforms.scale_rate(base, factor)
    assert arrivals_of(scaled) == expected
    assert [r[1:3] for r in scaled.records()] == [r[1:3] for r in base.records()]


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf")])
def test_t07_a_factor_that_is_not_above_0_is_refused(tmp_path: Path, factor: float) -> None:
    with pytest.raises(UsageError, match="must be above 0"):
        transforms.scale_rate(trace_of(tmp_path, [0]), factor)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 10**15), min_size=1, max_size=20), st.sampled_from([0.1, 0.3, 1.7, 3.0, 20.0]))
def test_a_scaled_stamp_is_the_exact_quotient_to_the_nearest_nanosecond(
    tmp_path_factory: pytest.TempPathFactory, arrivals: list[int], factor: float
) -> None:
    arrivals.sort()
    scaled = arrivals_of(transforms.scale_rate(trace_of(tmp_path_factory.mktemp("s"), arrivals), factor))
    exact = [Fraction(stamp - arrivals[0]) / Fraction(str(factor)) for stamp in arrivals]
    assert all(abs(found - wanted) <= Fraction(1, 2) for found, wanted in zip(scaled, exact, strict=True))


def test_a_rate_scale_leaves_think_times_alone(closed: Trace) -> None:
    found = [(r.arrival_ns, r.think_ns) for r in transforms.scale_rate(closed, 2.0).records()]
    assert found == [(0, -1), (0, 100), (25, -1), (0, 200), (40, -1)]


def test_t15_no_limit_sends_every_row_once_and_a_limit_the_first(tmp_path: Path) -> None:
    base = trace_of(tmp_path, range(0, 250, 10))
    assert [r.prompt_tokens for r in base.records()] == list(range(1, 26))
    ten = transforms.limit(base, 10)
    assert [r.prompt_tokens for r in ten.records()] == list(range(1, 11))
    assert (ten.report.rows_read, ten.report.rows_kept, ten.report.dropped) == (25, 10, {"past the limit of 10": 15})
    assert ten.report.add_up()


def test_t15_a_limit_above_the_rows_keeps_all_repeats_none_and_says_so(tmp_path: Path) -> None:
    forty = transforms.limit(trace_of(tmp_path, range(25)), 40)
    assert len(list(forty.records())) == 25
    assert forty.report.notes == ["limit 40: the trace has only 25 rows; all are kept, none is repeated"]
    assert forty.report.add_up()
    with pytest.raises(UsageError, match="limit is 0"):
        transforms.limit(forty, 0)


def test_a_time_slice_keeps_its_half_open_interval_and_starts_at_0(tmp_path: Path) -> None:
    part = transforms.slice_time(trace_of(tmp_path, [0, 10, 20, 30]), 10, 30)
    assert [r[:2] for r in part.records()] == [(0, 2), (10, 3)]
    assert part.report.dropped == {"outside of the time slice": 2}
    assert part.report.add_up()


def test_a_time_slice_takes_sessions_whole(closed: Trace) -> None:
    part = transforms.slice_time(closed, 40, 60)
    assert [(r.session, r.turn, r.arrival_ns) for r in part.records()] == [("bob", 0, 10), ("bob", 1, 0)]


def test_a_row_slice_drops_turns_whose_session_begins_before_it(closed: Trace) -> None:
    part = transforms.slice_rows(closed, 1, 4)
    assert [(r.session, r.turn) for r in part.records()] == [("bob", 0), ("bob", 1)]
    assert part.report.rows_dropped == 3
    assert part.report.add_up()


def test_slices_of_a_trace_put_together_are_the_trace(tmp_path: Path) -> None:
    base = trace_of(tmp_path, [0, 3, 3, 8, 9, 20])
    halves = [transforms.slice_time(base, 0, 8), transforms.slice_time(base, 8, 100)]
    assert [r[1:] for half in halves for r in half.records()] == [r[1:] for r in base.records()]


@pytest.mark.parametrize("bounds", [(5, 5), (-1, 5), (6, 5)])
def test_an_empty_slice_is_refused(tmp_path: Path, bounds: tuple[int, int]) -> None:
    base = trace_of(tmp_path, [0])
    for cut in (transforms.slice_time, transforms.slice_rows):
        with pytest.raises(UsageError, match="below the"):
            cut(base, *bounds)


def test_a_merge_is_stable_and_keeps_every_row(tmp_path: Path, closed: Trace) -> None:
    merged = transforms.merge([trace_of(tmp_path, [0, 50, 50]), closed, trace_of(tmp_path, [50])])
    found = [(r.arrival_ns, r.session) for r in merged.records() if r.think_ns < 0]
    assert found == [(0, ""), (0, "1:alice"), (50, ""), (50, ""), (50, "1:bob"), (50, ""), (80, "")]
    assert merged.scan().rows == 9
    assert merged.report.add_up()
    assert merged.closed_loop


def test_a_merge_keeps_ids_and_sessions_of_its_parts_apart(closed: Trace) -> None:
    records = list(transforms.merge([closed, closed]).records())
    ids = [{i for r in records if r.session.startswith(f"{n}:") for i in r.hash_ids or ()} for n in (0, 1)]
    assert [len(part) for part in ids] == [3, 3]
    assert not ids[0] & ids[1]


def test_a_cap_cuts_counts_and_takes_the_ids_with_it(closed: Trace) -> None:
    capped = transforms.cap(closed, prompt_tokens=16, output_tokens=3)
    assert [(r.prompt_tokens, r.output_tokens) for r in capped.records()] == [
        (10, 1),
        (16, 2),
        (16, 3),
        (16, 3),
        (16, 3),
    ]
    assert [r.hash_ids for r in capped.records()] == [(7, 9), (7, 9), (7,), None, None]
    assert capped.report.notes == ["4 prompts cut to 16 tokens", "2 outputs cut to 3 tokens"]


def test_anonymised_names_are_new_and_equal_ones_stay_equal(closed: Trace) -> None:
    found = [(r.session, r.tenant, r.hash_ids) for r in transforms.anonymise(closed).records()]
    assert found == [
        ("s0", "t0", (0, 1)),
        ("s0", "t0", (0, 1, 2)),
        ("s1", "t1", (0,)),
        ("s1", "t1", None),
        ("", "t0", None),
    ]


def test_a_bootstrap_is_seeded_modelled_and_made_of_the_rows_of_the_trace() -> None:
    base = open_trace("azure-conv-like", options=ReadOptions(rows=2000))
    drawn = transforms.resample(base, 5000, seed=1)
    records = list(drawn.records())
    assert len(records) == 5000
    assert records == list(drawn.records())
    assert records != list(transforms.resample(base, 5000, seed=2).records())
    assert {r[1:3] for r in records} <= {r[1:3] for r in base.records()}
    assert drawn.is_model
    assert drawn.report.add_up()
    assert drawn.scan().span_ns / 5000 == pytest.approx(base.scan().span_ns / 2000, rel=0.1)


def test_a_bootstrap_of_a_closed_loop_draws_whole_sessions(closed: Trace) -> None:
    records = list(transforms.resample(closed, 50, seed=0).records())
    starts = [r for r in records if r.think_ns < 0]
    assert [r.arrival_ns for r in starts] == sorted(r.arrival_ns for r in starts)
    for before, record in pairwise(records):
        if record.think_ns >= 0:
            assert before.session == record.session


def test_transforms_chain_and_the_report_still_adds_up(closed: Trace) -> None:
    chained = transforms.anonymise(
        transforms.limit(transforms.scale_rate(transforms.slice_time(closed, 10, 1000), 4.0), 2)
    )
    assert next(iter(chained.records())) == TraceRecord(0, 30, 3, "s0", tenant="t0", hash_ids=(0,), hash_block_tokens=8)
    assert chained.report.add_up()
    assert chained.report.rows_kept == 2
    assert chained.sha256 == closed.sha256
