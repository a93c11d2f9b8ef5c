"""Numbers without pattern that are the same in every process."""

from __future__ import annotations


def scrambled(*numbers: int) -> int:
    """An arbitrary number of 57 bits that follows from `numbers` alone."""
    state = 0x9E3779B97F4A7C15
    for number in numbers:
        state = (state ^ number) * 0xBF58476D1CE4E5B9 & (1 << 64) - 1
        state ^= state >> 29
    return state >> 7
