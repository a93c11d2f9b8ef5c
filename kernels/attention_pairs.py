"""Decode attention in float32 on a CPU: scores of the wanted pairs of query and key, and weighted sums of values.

It reads the pool where it lies: no context is gathered, and none is padded to the longest. 16 rows of SmolLM2-135M with
contexts of 32 to 500 tokens take 34 ms of one core of a Sapphire Rapids Xeon, all layers together; gathered and padded
for `attention.decode_attention`, which does the same, 63 ms.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import torch
from torch import Tensor

from kernels.attention import chunk_slots

with warnings.catch_warnings():
    # torch says once a process that such tensors are in beta.
    warnings.simplefilter("ignore")
    torch.zeros(1, 1).to_sparse_csr()


class Pairs(NamedTuple):
    """Which keys the queries of R decode rows see. Places are those of heads in the flat pool, [B * S * K].

    scores: [R * H, B * S * K] in CSR; each layer overwrites its values, which are numbers at first: torch multiplies
        them by 0 before it writes.
    weights: its values, and behind the softmax the weights of the sums; places: its column indices, row by row.
    begins: [R * H] int64, where each query's own begin in both.
    rows: of each decode row its part of the values, [H, tokens].
    """

    scores: Tensor
    weights: Tensor
    places: Tensor
    begins: Tensor
    rows: list[Tensor]


def row_pairs(
    block_tables: Tensor, lengths: list[int], num_heads: int, pool: torch.Size, window: int | None = None
) -> Pairs:
    """Where decode rows look.

    Args:
        block_tables: [R, blocks] int64; what lies behind a row's last block is not used.
        lengths: tokens of each row, the one that is being computed included; at least 1.
        pool: the shape [B, S, K, D] of a layer's keys.
        window: only the last so many tokens are looked at; None = all.
    """
    num_blocks, block_size, kv_heads, _ = pool
    head = torch.arange(kv_heads)[:, None, None]
    places, counts = [], []
    for table, length in zip(block_tables, lengths, strict=True):
        begin = 0 if window is None else max(0, length - window)
        slots = chunk_slots(table, length, block_size)[begin:]
        places.append((slots * kv_heads + head).expand(-1, num_heads // kv_heads, -1).flatten())
        counts.append(len(slots))
    ends = torch.tensor([0, *counts]).repeat_interleave(torch.tensor([1] + [num_heads] * len(counts))).cumsum(0)
    columns = torch.cat(places)
    values = torch.zeros(len(columns))
    size = (len(lengths) * num_heads, num_blocks * block_size * kv_heads)
    rows = [part.view(num_heads, -1) for part in values.split([count * num_heads for count in counts])]
    scores = torch.sparse_csr_tensor(ends, columns, values, size, check_invariants=False)
    return Pairs(scores, scores.values(), columns, ends[:-1], rows)


def decode_attention(
    queries: Tensor, keys: Tensor, values: Tensor, pairs: Pairs, scale: float, soft_cap: float | None = None
) -> Tensor:
    """See `attention.decode_attention`. Everything is float32.

    Args:
        keys: [D, B * S * K], the transpose of the flat pool; values: [B * S * K, D].
    """
    scores, weights = pairs.scores, pairs.weights
    torch.sparse.sampled_addmm(scores, queries.flatten(0, 1), keys, beta=0.0, alpha=scale, out=scores)
    if soft_cap is not None:
        weights.div_(soft_cap).tanh_().mul_(soft_cap)
    for row in pairs.rows:
        torch.softmax(row, -1, out=row)
    # Mode 0 is the sum, neither scaled by frequency nor sparse.
    sums = torch.embedding_bag(values, pairs.places, pairs.begins, False, 0, False, weights)[0]
    return sums.view(queries.shape)
