"""The closed form of a pace answers every question as counting its iterations one by one does."""

from __future__ import annotations

from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedlab.pace import ArithmeticPace, SteppedPace, ns_to_quanta, quanta_to_ns

STARTS = st.integers(0, 2**80)
COUNTS = st.integers(1, 200)
FIRSTS = st.integers(1, 2**50)
GROWTHS = st.one_of(st.just(0), st.integers(0, 20), st.integers(0, 2**50))


@st.composite
def arithmetic(draw: st.DrawFn) -> ArithmeticPace:
    return ArithmeticPace(draw(STARTS), draw(COUNTS), draw(FIRSTS), draw(GROWTHS))


def ends_by_counting(pace: ArithmeticPace) -> list[int]:
    return list(accumulate((pace.first + i * pace.growth for i in range(pace.count)), initial=pace.start_quanta))


def instants_around(ends: list[int]) -> list[int]:
    return sorted({end + offset for end in ends for offset in (-1, 0, 1)} | {0, 2**100})


@given(arithmetic())
def test_ends_and_durations_equal_counting(pace: ArithmeticPace) -> None:
    ends = ends_by_counting(pace)
    assert [pace.end_quanta(i) for i in range(pace.count + 1)] == ends
    assert list(pace.durations()) == [b - a for a, b in pairwise(ends)]


@given(arithmetic())
def test_first_at_or_after_is_exact_on_and_beside_every_boundary(pace: ArithmeticPace) -> None:
    ends = ends_by_counting(pace)
    for t in instants_around(ends):
        expected = next((i for i in range(1, pace.count + 1) if ends[i] >= t), pace.count)
        assert pace.first_at_or_after(t) == expected


@given(arithmetic())
def test_completed_by_is_exact_on_and_beside_every_boundary(pace: ArithmeticPace) -> None:
    ends = ends_by_counting(pace)
    for t in instants_around(ends):
        assert pace.completed_by(t) == max((i for i in range(pace.count + 1) if ends[i] <= t), default=0)


@given(st.integers(1, 10**7), st.integers(1, 2**45), st.integers(0, 2**45), st.data())
def test_long_runs_find_the_iteration_that_brackets_the_instant(
    count: int, first: int, growth: int, data: st.DataObject
) -> None:
    pace = ArithmeticPace(2**70, count, first, growth)
    t = data.draw(st.integers(pace.end_quanta(0) + 1, pace.end_quanta(count)))
    i = pace.first_at_or_after(t)
    assert pace.end_quanta(i - 1) < t <= pace.end_quanta(i)
    assert pace.completed_by(t) == (i if pace.end_quanta(i) == t else i - 1)


@given(arithmetic(), st.data())
def test_a_truncated_run_is_its_own_beginning(pace: ArithmeticPace, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, pace.count))
    for run in (pace, SteppedPace(pace.start_quanta, pace.count, lambda i: pace.first + (i - 1) * pace.growth)):
        shorter = run.truncated(count)
        assert shorter.count == count
        assert [shorter.end_quanta(i) for i in range(count + 1)] == [pace.end_quanta(i) for i in range(count + 1)]
        assert shorter.first_at_or_after(2**120) == count


@given(arithmetic(), st.lists(st.integers(0, 2**82), max_size=10))
def test_stepped_and_arithmetic_paces_answer_alike(pace: ArithmeticPace, instants: list[int]) -> None:
    stepped = SteppedPace(pace.start_quanta, pace.count, lambda i: pace.first + (i - 1) * pace.growth)
    for t in [*instants, *instants_around(ends_by_counting(pace))]:
        assert stepped.first_at_or_after(t) == pace.first_at_or_after(t)
        assert stepped.completed_by(t) == pace.completed_by(t)
    assert list(stepped.durations()) == list(pace.durations())


@given(st.lists(st.integers(1, 2**50), min_size=1, max_size=50), STARTS)
def test_a_stepped_pace_takes_any_durations_and_asks_for_each_once(durations: list[int], start: int) -> None:
    asked: list[int] = []

    def step(i: int) -> int:
        asked.append(i)
        return durations[i - 1]

    pace = SteppedPace(start, len(durations), step)
    assert list(pace.durations()) == durations
    assert pace.completed_by(start + sum(durations)) == len(durations)
    assert asked == list(range(1, len(durations) + 1))


def test_a_stepped_pace_evaluates_no_further_than_it_is_asked() -> None:
    asked: list[int] = []

    def step(i: int) -> int:
        asked.append(i)
        return 10

    pace = SteppedPace(0, 1000, step)
    assert pace.first_at_or_after(25) == 3
    assert asked == [1, 2, 3]


@pytest.mark.parametrize(("count", "first", "growth"), [(0, 1, 0), (1, 0, 0), (1, 1, -1)])
def test_a_pace_without_time_or_iterations_is_refused(count: int, first: int, growth: int) -> None:
    with pytest.raises(ValueError, match="pace needs"):
        ArithmeticPace(0, count, first, growth)


def test_a_step_of_no_time_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        SteppedPace(0, 3, lambda i: 0).end_quanta(1)


@given(st.integers(0, 2**70), st.integers(0, 2**20 - 1))
def test_nanoseconds_show_the_nanosecond_that_has_begun(ns: int, fraction: int) -> None:
    assert quanta_to_ns(ns_to_quanta(ns) + fraction) == ns
