"""Triton: norms of heads, rotation and the write of keys and values in one pass. Reference in `rotary`."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.launch import power_of_2


@triton.jit
def _rotate_and_write(
    projected, cos, sin, key_cache, value_cache, slots, query_norm, key_norm, output, eps,
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
    source = projected + (token * (H + 2 * K) + head) * D
    if head >= H + K:
        target = value_cache + (slot * K + head - H - K) * D
        tl.store(target + first, tl.load(source + first, mask=inside), mask=inside)
        tl.store(target + second, tl.load(source + second, mask=inside), mask=inside)
        return
    if head < H:
        target, weight = output + (token * H + head) * D, query_norm
    else:
        target, weight = key_cache + (slot * K + head - H) * D, key_norm
    x = tl.load(source + first, mask=inside, other=0.0)
    y = tl.load(source + second, mask=inside, other=0.0)
    kind = x.dtype
    x, y = x.to(tl.float32), y.to(tl.float32)
    if NORMED:
        factor = tl.rsqrt((tl.sum(x * x, 0) + tl.sum(y * y, 0)) / D + eps)
        x = (x * factor * tl.load(weight + first, mask=inside, other=0.0)).to(kind).to(tl.float32)
        y = (y * factor * tl.load(weight + second, mask=inside, other=0.0)).to(kind).to(tl.float32)
    c = tl.load(cos + token * D + first, mask=inside, other=0.0)
    s = tl.load(sin + token * D + second, mask=inside, other=0.0)
    tl.store(target + first, (x * c - y * s).to(kind), mask=inside)
    tl.store(target + second, (y * c + x * s).to(kind), mask=inside)


def rotate_and_write(
    projected: Tensor,
    num_queries: int,
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
    """See `rotary.rotate_and_write`. Both norms or none; everything is contiguous."""
    tokens, heads, size = projected.shape
    output = torch.empty(tokens, num_queries, size, dtype=projected.dtype, device=projected.device)
    _rotate_and_write[(tokens, heads)](
        projected, cos, sin, key_cache, value_cache, slots,
        slots if query_norm is None else query_norm, slots if key_norm is None else key_norm, output, eps,
        H=num_queries, K=key_cache.shape[1], D=size, HALF=power_of_2(size // 2),
        INTERLEAVED=interleaved, NORMED=query_norm is not None,
    )  # fmt: skip
    return output
