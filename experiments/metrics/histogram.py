"""A histogram of non-negative integers in logarithmic buckets, with exact sum and count.

Values below 128 have a bucket each; above, a bucket holds the values with the same leading 8 bits (one implicit, 7 of
mantissa), so its width is below 1/128 of its values (0.8 %). The scheme is that of HdrHistogram by G. Tene.
"""

from __future__ import annotations

from collections import defaultdict

_MANTISSA_BITS = 7


def bucket_of(value: int) -> int:
    """The bucket's number; it grows with the value."""
    shift = value.bit_length() - _MANTISSA_BITS - 1
    return value if shift <= 0 else (shift << _MANTISSA_BITS) + (value >> shift)


def bucket_range(bucket: int) -> tuple[int, int]:
    """The lowest value of a bucket and the lowest one above it."""
    shift = max((bucket >> _MANTISSA_BITS) - 1, 0)
    leading = bucket - (shift << _MANTISSA_BITS)
    return leading << shift, (leading + 1) << shift


class LogHistogram:
    """Counts by bucket. Adding the same values in any order and grouping gives the same histogram."""

    __slots__ = ("count", "counts", "maximum", "total")

    def __init__(self) -> None:
        self.counts: defaultdict[int, int] = defaultdict(int)
        self.count = 0
        self.total = 0
        self.maximum = 0

    def add(self, value: int, times: int = 1) -> None:
        """Count `value` `times` times; nothing if `times` is 0."""
        if times:
            self.counts[bucket_of(value)] += times
            self.count += times
            self.total += value * times
            if value > self.maximum:
                self.maximum = value

    def add_progression(self, first: int, growth: int, length: int, times: int) -> None:
        """Count `first + i * growth` for i below `length`, `times` times each; one pass per bucket, not per value."""
        last = first + growth * (length - 1)
        self.count += length * times
        self.total += (first + last) * length // 2 * times
        if last > self.maximum:
            self.maximum = last
        bucket = bucket_of(first)
        if bucket == bucket_of(last):
            self.counts[bucket] += length * times
            return
        value, left = first, length
        while left:
            bucket = bucket_of(value)
            above = bucket_range(bucket)[1]
            inside = left if last < above else (above - 1 - value) // growth + 1
            self.counts[bucket] += inside * times
            value += inside * growth
            left -= inside

    def quantile(self, share: float) -> int | None:
        """The middle of the bucket that holds the value of rank `share` of the count (nearest rank); None if empty."""
        rank = max(share * self.count, 1)
        seen = 0
        for bucket in sorted(self.counts):
            seen += self.counts[bucket]
            if seen >= rank:
                low, above = bucket_range(bucket)
                return min((low + above - 1) // 2, self.maximum)
        return None

    def at_most(self, limit: int) -> int:
        """How many values are in `limit`'s bucket or below it."""
        highest = bucket_of(limit)
        return sum(times for bucket, times in self.counts.items() if bucket <= highest)
