"""What the machine itself can do: bytes and multiplications a second, with the threads that the sides have."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import NamedTuple

import torch

_STREAM_BYTES = 512 << 20
_GEMM_SIZE = 1536
_ROUNDS = 7


class Rates(NamedTuple):
    """read_gb_s: a sum over an array larger than any cache. gemm_gflop_s: float32 products of square matrices."""

    read_gb_s: float
    gemm_gflop_s: float


def probe(num_threads: int) -> Rates:
    """Medians of several rounds."""
    torch.set_num_threads(num_threads)
    array = torch.ones(_STREAM_BYTES // 4)
    left, right = torch.rand(2, _GEMM_SIZE, _GEMM_SIZE)
    read_s, gemm_s = _seconds(array.sum), _seconds(lambda: left @ right)
    return Rates(_STREAM_BYTES / read_s / 1e9, 2 * _GEMM_SIZE**3 / gemm_s / 1e9)


def _seconds(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(_ROUNDS):
        begin_s = perf_counter()
        work()
        taken.append(perf_counter() - begin_s)
    return median(taken)
