"""Triton: attention of packed prefill chunks behind a paged prefix. Reference: `attention.prefill_attention`.

One pass with a running maximum and sum, as in FlashAttention (Dao, Fu, Ermon, Rudra, Ré 2022).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.launch import dot_precision, power_of_2

_QUERY_TILE = 64
_CONTEXT_TILE = 64


class ChunkTiles(NamedTuple):
    """Tiles of queries and the chunks that they are cut from, prepared once for all layers.

    tiles: [n, 2] int32, each tile's chunk and its first query in it. chunks: [c, 3] int64, first packed token, number
    of tokens and position of the first. tables: [c, blocks] int64.
    """

    tiles: Tensor
    chunks: Tensor
    tables: Tensor


def chunk_tiles(chunks: Sequence[tuple[int, int, int]], tables: Sequence[Tensor], device: torch.device) -> ChunkTiles:
    """Of chunks (first packed token, tokens, position of the first), each with its block table."""
    tiles = [(number, begin) for number, (_, count, _) in enumerate(chunks) for begin in range(0, count, _QUERY_TILE)]
    padded = torch.nn.utils.rnn.pad_sequence(list(tables), batch_first=True)
    return ChunkTiles(
        torch.tensor(tiles, dtype=torch.int32, device=device),
        torch.tensor(chunks, dtype=torch.int64, device=device),
        padded.contiguous(),
    )


@triton.jit
def _attend_tile(
    queries, keys, values, tiles, chunks, tables, output, scale, soft_cap, table_stride,
    S: tl.constexpr, H: tl.constexpr, K: tl.constexpr, D: tl.constexpr,
    WINDOW: tl.constexpr, CAPPED: tl.constexpr, PRECISION: tl.constexpr,
    QUERIES: tl.constexpr, WIDTH: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """One tile of queries of one head."""
    tile, head = tl.program_id(0), tl.program_id(1)
    kv_head = head // (H // K)
    chunk = tl.load(tiles + 2 * tile).to(tl.int64)
    begin = tl.load(tiles + 2 * tile + 1)
    first = tl.load(chunks + 3 * chunk)
    count = tl.load(chunks + 3 * chunk + 1).to(tl.int32)
    start = tl.load(chunks + 3 * chunk + 2).to(tl.int32)
    row, column = begin + tl.arange(0, QUERIES), tl.arange(0, WIDTH)
    position, in_head = start + row, column < D
    mine = (row < count)[:, None] & in_head[None, :]
    place = ((first + row) * H + head) * D
    query = tl.load(queries + place[:, None] + column[None, :], mask=mine, other=0.0)
    best = tl.full([QUERIES], float("-inf"), tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    result = tl.zeros([QUERIES, WIDTH], tl.float32)
    last = start + tl.minimum(begin + QUERIES, count)
    least = tl.maximum(start + begin - WINDOW + 1, 0) if WINDOW > 0 else 0
    for from_token in range(least, last, TILE):
        token = from_token + tl.arange(0, TILE)
        inside = token < last
        block = tl.load(tables + chunk * table_stride + token // S, mask=inside, other=0).to(tl.int64)
        slot = ((block * S + token % S) * K + kv_head) * D
        wanted = inside[:, None] & in_head[None, :]
        key = tl.load(keys + slot[:, None] + column[None, :], mask=wanted, other=0.0)
        value = tl.load(values + slot[:, None] + column[None, :], mask=wanted, other=0.0)
        scores = tl.dot(query, tl.trans(key), input_precision=PRECISION) * scale
        if CAPPED:
            scores = soft_cap * (2 * tl.sigmoid(2 * scores / soft_cap) - 1)
        seen = inside[None, :] & (token[None, :] <= position[:, None])
        if WINDOW > 0:
            seen = seen & (token[None, :] > position[:, None] - WINDOW)
        scores = tl.where(seen, scores, float("-inf"))
        new_best = tl.maximum(best, tl.max(scores, 1))
        # A query that has seen nothing yet has no maximum to subtract.
        reference = tl.where(new_best == float("-inf"), 0.0, new_best)
        weight = tl.exp(scores - reference[:, None])
        faded = tl.exp(best - reference)
        total = total * faded + tl.sum(weight, 1)
        result = result * faded[:, None] + tl.dot(weight.to(value.dtype), value, input_precision=PRECISION)
        best = new_best
    # Rows behind the chunk's end may have seen nothing; nobody stores them.
    result = result / tl.where(total > 0, total, 1.0)[:, None]
    tl.store(output + place[:, None] + column[None, :], result.to(output.dtype.element_ty), mask=mine)


def prefill_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    tiles: ChunkTiles,
    *,
    scale: float,
    window: int | None = None,
    soft_cap: float | None = None,
) -> Tensor:
    """Causal attention of packed chunks [T, H, D] over paged keys and values [B, S, K, D]; returns the same shape."""
    _, heads, size = queries.shape
    block_size, kv_heads = keys.shape[1:3]
    queries = queries.contiguous()
    output = torch.empty_like(queries)
    _attend_tile[(len(tiles.tiles), heads)](
        queries, keys, values, tiles.tiles, tiles.chunks, tiles.tables, output,
        scale, soft_cap or 1.0, tiles.tables.stride(0),
        S=block_size, H=heads, K=kv_heads, D=size,
        WINDOW=window or 0, CAPPED=soft_cap is not None, PRECISION=dot_precision(queries),
        QUERIES=_QUERY_TILE, WIDTH=power_of_2(size, 16), TILE=_CONTEXT_TILE,
    )  # fmt: skip
    return output
