"""Transforms: each takes a trace (or several) and gives a trace; nothing is read before the result is iterated."""

from __future__ import annotations

from traces.transforms.combine import merge, resample
from traces.transforms.rewrite import anonymise, cap, scale_rate
from traces.transforms.select import limit, slice_rows, slice_time

__all__ = ["anonymise", "cap", "limit", "merge", "resample", "scale_rate", "slice_rows", "slice_time"]
