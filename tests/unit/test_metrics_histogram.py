"""Logarithmic buckets: narrow, ordered, and the same for a progression as for its values one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from experiments.metrics.histogram import LogHistogram, bucket_of, bucket_range

values = st.integers(0, 1 << 84)


@given(values)
def test_a_bucket_holds_its_values_and_is_narrower_than_one_128th(value: int) -> None:
    low, above = bucket_range(bucket_of(value))
    assert low <= value < above
    assert (above - low - 1) * 128 <= low


@given(values, values)
def test_buckets_are_ordered_as_values(one: int, other: int) -> None:
    low, high = sorted((one, other))
    assert bucket_of(low) <= bucket_of(high)


def test_buckets_leave_no_gap() -> None:
    assert [bucket_of(value) for value in range(256)] == list(range(256))
    assert all(bucket_range(bucket)[1] == bucket_range(bucket + 1)[0] for bucket in range(5_000))


@given(st.integers(1, 1 << 50), st.integers(0, 1 << 45), st.integers(1, 300), st.integers(1, 9))
def test_a_progression_equals_its_values_one_by_one(first: int, growth: int, length: int, times: int) -> None:
    together, singly = LogHistogram(), LogHistogram()
    together.add_progression(first, growth, length, times)
    for i in range(length):
        singly.add(first + i * growth, times)
    assert together.counts == singly.counts
    assert (together.count, together.total, together.maximum) == (singly.count, singly.total, singly.maximum)


@given(st.lists(st.integers(0, 1 << 60), min_size=1, max_size=60), st.sampled_from([0.0, 0.5, 0.9, 0.99, 1.0]))
def test_a_quantile_is_within_a_bucket_of_the_nearest_rank(sample: list[int], share: float) -> None:
    histogram = LogHistogram()
    for value in sample:
        histogram.add(value)
    rank = max(-(-share * len(sample) // 1), 1)
    exact = sorted(sample)[int(rank) - 1]
    estimate = histogram.quantile(share)
    assert estimate is not None
    assert abs(estimate - exact) * 128 <= exact


def test_an_empty_histogram_has_no_quantile() -> None:
    assert LogHistogram().quantile(0.5) is None


def test_adding_nothing_changes_nothing() -> None:
    histogram = LogHistogram()
    histogram.add(5, 0)
    assert (histogram.counts, histogram.count, histogram.maximum) == ({}, 0, 0)


def test_at_most_counts_to_the_end_of_the_limits_bucket() -> None:
    histogram = LogHistogram()
    for value in (10, 100, 1000, 10_000):
        histogram.add(value, 2)
    assert [histogram.at_most(limit) for limit in (9, 10, 1000, 1 << 40)] == [0, 2, 6, 8]
