"""When the iterations of a decode run end, in exact integer time.

The simulated clock and every duration are Python ints in *quanta* of 2^-20 ns, so that sums, products and comparisons
are exact and a run in closed form equals the same run stepped one iteration at a time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from math import sqrt
from typing import Protocol

QUANTA_SHIFT = 20
QUANTA_PER_NS = 1 << QUANTA_SHIFT


def ns_to_quanta(ns: int) -> int:
    """Whole nanoseconds to quanta; exact."""
    return ns << QUANTA_SHIFT


def quanta_to_ns(quanta: int) -> int:
    """Quanta to the nanosecond that has begun; what a device shows as `now_ns`."""
    return quanta >> QUANTA_SHIFT


class Pace(Protocol):
    """End times of the iterations 1..count of one decode run that begins at `start_quanta`; count is at least 1."""

    start_quanta: int
    count: int

    @property
    def last_quanta(self) -> int:
        """The end of the last iteration."""

    def end_quanta(self, i: int) -> int:
        """The end of iteration *i*, 0 <= i <= count; iteration 0 ends where the run starts."""

    def first_at_or_after(self, t_quanta: int) -> int:
        """The smallest i in 1..count whose end is at or after *t_quanta*; count when no end is."""

    def completed_by(self, t_quanta: int) -> int:
        """The largest i in 0..count whose end is at or before *t_quanta*; 0 before the run starts."""

    def truncated(self, count: int) -> Pace:
        """The same run with only its first *count* iterations, 1 <= count <= self.count."""

    def durations(self) -> Iterator[int]:
        """Each iteration's duration in quanta, in order."""


class ArithmeticPace:
    """Iterations of `first`, `first + growth`, `first + 2*growth`, ... quanta; every question in constant time.

    `first` is positive and `growth` is not negative: a decode iteration never gets cheaper as contexts grow.
    """

    __slots__ = ("count", "first", "growth", "last_quanta", "start_quanta")

    def __init__(self, start_quanta: int, count: int, first: int, growth: int = 0) -> None:
        if count < 1 or first < 1 or growth < 0:
            raise ValueError(f"a pace needs count >= 1, first >= 1, growth >= 0; got {count}, {first}, {growth}")
        self.start_quanta = start_quanta
        self.count = count
        self.first = first
        self.growth = growth
        self.last_quanta = start_quanta + count * first + growth * (count * (count - 1) >> 1)

    def __repr__(self) -> str:
        return f"ArithmeticPace({self.start_quanta}, {self.count}, {self.first}, {self.growth})"

    def end_quanta(self, i: int) -> int:
        return self.start_quanta + i * self.first + self.growth * (i * (i - 1) >> 1)

    def first_at_or_after(self, t_quanta: int) -> int:
        if t_quanta >= self.last_quanta:
            return self.count
        span = t_quanta - self.start_quanta
        return 1 if span <= self.first else self._reaching(span)

    def completed_by(self, t_quanta: int) -> int:
        if t_quanta >= self.last_quanta:
            return self.count
        span = t_quanta - self.start_quanta
        return 0 if span < self.first else self._reaching(span + 1) - 1

    def truncated(self, count: int) -> ArithmeticPace:
        return ArithmeticPace(self.start_quanta, count, self.first, self.growth)

    def durations(self) -> Iterator[int]:
        duration = self.first
        for _ in range(self.count):
            yield duration
            duration += self.growth

    def _reaching(self, span: int) -> int:
        """Smallest i with i*first + growth*i*(i-1)/2 >= span, for a span inside the run."""
        first, growth = self.first, self.growth
        if growth == 0:
            return -(-span // first)
        # The float root is only a guess; the exact sums below decide, so the answer is the same on every machine.
        linear = first - growth / 2
        i = int(2 * span / (linear + sqrt(linear * linear + 2.0 * growth * span)))
        while i * first + growth * (i * (i - 1) >> 1) < span:
            i += 1
        while (i - 1) * first + growth * ((i - 1) * (i - 2) >> 1) >= span:
            i -= 1
        return i


def slowed(pace: Pace, extra_quanta: int) -> Pace:
    """The same run with *extra_quanta* more for every iteration."""
    if extra_quanta == 0:
        return pace
    if isinstance(pace, ArithmeticPace):
        return ArithmeticPace(pace.start_quanta, pace.count, pace.first + extra_quanta, pace.growth)

    def duration(i: int) -> int:
        return pace.end_quanta(i) - pace.end_quanta(i - 1) + extra_quanta

    return SteppedPace(pace.start_quanta, pace.count, duration)


class SteppedPace:
    """Iterations of any positive duration, `step(i)` quanta for i = 1, 2, ...; asked once each and only when needed."""

    __slots__ = ("_ends", "_step", "count", "start_quanta")

    def __init__(self, start_quanta: int, count: int, step: Callable[[int], int]) -> None:
        if count < 1:
            raise ValueError(f"a pace needs count >= 1; got {count}")
        self.start_quanta = start_quanta
        self.count = count
        self._step = step
        self._ends = [start_quanta]

    @property
    def last_quanta(self) -> int:
        return self.end_quanta(self.count)

    def end_quanta(self, i: int) -> int:
        self._extend(i)
        return self._ends[i]

    def first_at_or_after(self, t_quanta: int) -> int:
        self._extend_past(t_quanta)
        return min(max(bisect_left(self._ends, t_quanta), 1), self.count)

    def completed_by(self, t_quanta: int) -> int:
        self._extend_past(t_quanta)
        return min(max(bisect_right(self._ends, t_quanta) - 1, 0), self.count)

    def truncated(self, count: int) -> SteppedPace:
        if not 1 <= count <= self.count:
            raise ValueError(f"cannot truncate a run of {self.count} iterations to {count}")
        shorter = SteppedPace(self.start_quanta, count, self._step)
        shorter._ends = self._ends[: count + 1]
        return shorter

    def durations(self) -> Iterator[int]:
        for i in range(1, self.count + 1):
            yield self.end_quanta(i) - self._ends[i - 1]

    def _extend(self, i: int) -> None:
        while len(self._ends) <= i:
            self._append_next()

    def _extend_past(self, t_quanta: int) -> None:
        while self._ends[-1] <= t_quanta and len(self._ends) <= self.count:
            self._append_next()

    def _append_next(self) -> None:
        duration = self._step(len(self._ends))
        if duration < 1:
            raise ValueError(f"iteration {len(self._ends)} takes {duration} quanta; a step takes at least 1")
        self._ends.append(self._ends[-1] + duration)
