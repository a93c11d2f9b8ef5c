"""Paged keys and values with known content, in memory that is NaN wherever nothing was written."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Paged(NamedTuple):
    """Contexts of several sequences: `keys`, `values` [B, S, K, D]; tables [n, blocks]; the same content in plain."""

    keys: Tensor
    values: Tensor
    tables: Tensor
    plain_keys: list[Tensor]
    plain_values: list[Tensor]


def paged(
    lengths: list[int], block_size: int, kv_heads: int, size: int, dtype: torch.dtype = torch.float32, seed: int = 0
) -> Paged:
    """Blocks lie in a random order, and behind the last token of a sequence lies NaN."""
    generator = torch.Generator().manual_seed(seed)
    most = -(-max(lengths) // block_size)
    num_blocks = len(lengths) * most + 3
    order = torch.randperm(num_blocks, generator=generator)
    tables = order[: len(lengths) * most].view(len(lengths), most)
    keys, values = (torch.full((num_blocks, block_size, kv_heads, size), float("nan"), dtype=dtype) for _ in range(2))
    plain: tuple[list[Tensor], list[Tensor]] = ([], [])
    for table, length in zip(tables, lengths, strict=True):
        positions = torch.arange(length)
        slots = table[positions // block_size] * block_size + positions % block_size
        for cache, contents in zip((keys, values), plain, strict=True):
            content = torch.randn(length, kv_heads, size, generator=generator).to(dtype)
            cache.flatten(0, 1)[slots] = content
            contents.append(content)
    return Paged(keys, values, tables, *plain)


def plain_attention(
    query: Tensor, key: Tensor, value: Tensor, scale: float, window: int | None, soft_cap: float | None
) -> Tensor:
    """Queries [q, H, D] of the last positions of a context [n, K, D], one query and head at a time, in float64."""
    count, heads, _ = query.shape
    context, kv_heads, _ = key.shape
    output = torch.empty(query.shape, dtype=torch.float64)
    for row in range(count):
        end = context - count + row + 1
        begin = 0 if window is None else max(0, end - window)
        for head in range(heads):
            group = head * kv_heads // heads
            scores = (key[begin:end, group].double() @ query[row, head].double()) * scale
            if soft_cap is not None:
                scores = soft_cap * torch.tanh(scores / soft_cap)
            output[row, head] = scores.softmax(0) @ value[begin:end, group].double()
    return output
