"""Triton: paged decode attention. Each context is split among programs; queries of a group share its keys.

Reference: `attention.decode_attention`. Splitting a context and merging softmaxes by their maxima and sums is
Flash-Decoding (Dao, Haziza, Massa, Sizov 2023).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.launch import dot_precision, power_of_2, processors

# Tensor cores multiply at least so many rows.
_LEAST_ROWS = 16
_TILE = 64
# A split shorter than this does not pay for its merge.
_LEAST_SPLIT = 256


@triton.jit
def _attend_split(
    queries, keys, values, tables, lengths, sums, maxima, outputs, scale, soft_cap, table_stride,
    S: tl.constexpr, K: tl.constexpr, G: tl.constexpr, D: tl.constexpr, SPLITS: tl.constexpr,
    WINDOW: tl.constexpr, CAPPED: tl.constexpr, PRECISION: tl.constexpr,
    ROWS: tl.constexpr, WIDTH: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """The G queries of one key/value head of one row, over one split of its context."""
    row = tl.program_id(0).to(tl.int64)
    kv_head = tl.program_id(1)
    split = tl.program_id(2)
    member, column = tl.arange(0, ROWS), tl.arange(0, WIDTH)
    in_head = column < D
    length = tl.load(lengths + row).to(tl.int32)
    begin = tl.maximum(length - WINDOW, 0) if WINDOW > 0 else 0
    share = tl.cdiv(tl.cdiv(length - begin, SPLITS), TILE) * TILE
    first = begin + split * share
    last = tl.minimum(first + share, length)
    head = kv_head * G + member
    query = tl.load(
        queries + (row * K * G + head[:, None]) * D + column[None, :],
        mask=(member < G)[:, None] & in_head[None, :],
        other=0.0,
    )
    best = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    result = tl.zeros([ROWS, WIDTH], tl.float32)
    for start in range(first, last, TILE):
        position = start + tl.arange(0, TILE)
        inside = position < last
        block = tl.load(tables + row * table_stride + position // S, mask=inside, other=0).to(tl.int64)
        place = ((block * S + position % S) * K + kv_head) * D
        wanted = inside[:, None] & in_head[None, :]
        key = tl.load(keys + place[:, None] + column[None, :], mask=wanted, other=0.0)
        value = tl.load(values + place[:, None] + column[None, :], mask=wanted, other=0.0)
        scores = tl.dot(query, tl.trans(key), input_precision=PRECISION) * scale
        if CAPPED:
            scores = soft_cap * (2 * tl.sigmoid(2 * scores / soft_cap) - 1)
        scores = tl.where(inside[None, :], scores, float("-inf"))
        new_best = tl.maximum(best, tl.max(scores, 1))
        weight = tl.exp(scores - new_best[:, None])
        faded = tl.exp(best - new_best)
        total = total * faded + tl.sum(weight, 1)
        result = result * faded[:, None] + tl.dot(weight.to(value.dtype), value, input_precision=PRECISION)
        best = new_best
    place = (row * K * G + head) * SPLITS + split
    tl.store(maxima + place, best, mask=member < G)
    tl.store(sums + place, total, mask=member < G)
    wanted = (member < G)[:, None] & in_head[None, :]
    tl.store(outputs + place[:, None] * D + column[None, :], result, mask=wanted)


@triton.jit
def _merge(
    sums, maxima, outputs, merged, SPLITS: tl.constexpr, D: tl.constexpr, PARTS: tl.constexpr, WIDTH: tl.constexpr
):
    """The splits of one head of one row; an empty split has maximum -inf and sum 0."""
    head = tl.program_id(0).to(tl.int64)
    part, column = tl.arange(0, PARTS), tl.arange(0, WIDTH)
    is_part, in_head = part < SPLITS, column < D
    best = tl.load(maxima + head * SPLITS + part, mask=is_part, other=float("-inf"))
    total = tl.load(sums + head * SPLITS + part, mask=is_part, other=0.0)
    wanted = is_part[:, None] & in_head[None, :]
    result = tl.load(outputs + (head * SPLITS + part[:, None]) * D + column[None, :], mask=wanted, other=0.0)
    faded = tl.exp(best - tl.max(best, 0))
    combined = tl.sum(result * faded[:, None], 0) / tl.sum(total * faded, 0)
    tl.store(merged + head * D + column, combined.to(merged.dtype.element_ty), mask=in_head)


def decode_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    block_tables: Tensor,
    lengths: Tensor,
    longest: int,
    *,
    scale: float,
    window: int | None = None,
    soft_cap: float | None = None,
) -> Tensor:
    """Attention of one query per row, [R, H, D], over paged keys and values [B, S, K, D]; the same shape comes back.

    Args:
        block_tables, lengths, longest, window: see `attention.row_contexts`.
    """
    rows, heads, size = queries.shape
    block_size, kv_heads = keys.shape[1:3]
    group = heads // kv_heads
    splits = _splits(rows * kv_heads, min(longest, window or longest), processors(queries))
    sums, maxima = torch.empty(2, rows, heads, splits, dtype=torch.float32, device=queries.device)
    outputs = torch.empty(rows, heads, splits, size, dtype=torch.float32, device=queries.device)
    merged = torch.empty_like(queries)
    _attend_split[(rows, kv_heads, splits)](
        queries.contiguous(), keys, values, block_tables, lengths, sums, maxima, outputs,
        scale, soft_cap or 1.0, block_tables.stride(0),
        S=block_size, K=kv_heads, G=group, D=size, SPLITS=splits,
        WINDOW=window or 0, CAPPED=soft_cap is not None, PRECISION=dot_precision(queries),
        ROWS=power_of_2(group, _LEAST_ROWS), WIDTH=power_of_2(size, 16), TILE=_TILE,
    )  # fmt: skip
    _merge[(rows * heads,)](
        sums, maxima, outputs, merged, SPLITS=splits, D=size, PARTS=power_of_2(splits), WIDTH=power_of_2(size)
    )
    return merged


def _splits(programs: int, context: int, num_processors: int) -> int:
    """Enough to keep two programs on each processor, none shorter than pays."""
    wanted = triton.cdiv(2 * num_processors, programs)
    return power_of_2(max(1, min(wanted, triton.cdiv(context, _LEAST_SPLIT))))
