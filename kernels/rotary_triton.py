"""Triton: norms of heads, rotation and the write of keys and values in one pass. Reference in `rotary`."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.launch import power_of_2


@triton.jit
def _rotate_and_write(
    queries, keys, values, cos, sin, key_cache, value_cache, slots, query_norm, key_norm, output,
    query_stride, key_stride, value_stride, eps,
    H: tl.constexpr, K: tl.constexpr, D: tl.constexpr, HALF: tl.constexpr,
    INTERLEAVED: tl.constexpr, NORMED: tl.constexpr,
):  # fmt: skip
    """One program for one head of one token: H of queries, then K of keys, then K of values."""
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    pair = tl.arange(0, HALF)
    inside = pair < D // 2
    first = 2 * pair if INTERLEAVED else pair
    second = first + 1 if INTERLEAVED else pair + D // 2
    slot = tl.load(slots + token)
    if head >= H + K:
        index = head - H - K
        source, target = values + token * value_stride + index * D, value_cache + (slot * K + index) * D
        tl.store(target + first, tl.load(source + first, mask=inside), mask=inside)
        tl.store(target + second, tl.load(source + second, mask=inside), mask=inside)
        return
    is_query = head < H
    index = tl.where(is_query, head, head - H)
    if is_query:
        source, target, weight = (
            queries + token * query_stride + index * D,
            output + (token * H + index) * D,
            query_norm,
        )
    else:
        source, target, weight = keys + token * key_stride + index * D, key_cache + (slot * K + index) * D, key_norm
    x = tl.load(source + first, mask=inside, other=0.0)
    y = tl.load(source + second, mask=inside, other=0.0)
    kind = x.dtype
    x, y = x.to(tl.float32), y.to(tl.float32)
    if NORMED:
        factor = tl.rsqrt((tl.sum(x * x, 0) + tl.sum(y * y, 0)) / D + eps)
        x = (x * factor * tl.load(weight + first, mask=inside, other=0.0)).to(kind).to(tl.float32)
        y = (y * factor * tl.load(weight + second, mask=inside, other=0.0)).to(kind).to(tl.float32)
    c = tl.load(cos + token * (D // 2) + pair, mask=inside, other=0.0)
    s = tl.load(sin + token * (D // 2) + pair, mask=inside, other=0.0)
    tl.store(target + first, (x * c - y * s).to(kind), mask=inside)
    tl.store(target + second, (y * c + x * s).to(kind), mask=inside)


def rotate_and_write(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    cos: Tensor,
    sin: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    slots: Tensor,
    *,
    interleaved: bool,
    query_norm: Tensor | None = None,
    key_norm: Tensor | None = None,
    eps: float = 0.0,
) -> Tensor:
    """See `rotary.rotate_and_write`. Both norms or none; heads are contiguous, tokens may be strided."""
    tokens, heads, size = queries.shape
    kv_heads = keys.shape[1]
    output = torch.empty(tokens, heads, size, dtype=queries.dtype, device=queries.device)
    _rotate_and_write[(tokens, heads + 2 * kv_heads)](
        queries, keys, values, cos.contiguous(), sin.contiguous(), key_cache, value_cache, slots,
        slots if query_norm is None else query_norm, slots if key_norm is None else key_norm, output,
        queries.stride(0), keys.stride(0), values.stride(0), eps,
        H=heads, K=kv_heads, D=size, HALF=power_of_2(size // 2),
        INTERLEAVED=interleaved, NORMED=query_norm is not None,
    )  # fmt: skip
    return output
