"""Attention over paged keys and values equals attention over plain ones."""

from __future__ import annotations

import pytest

from tests.torch_needed import torch  # isort: skip

from collections.abc import Callable

from torch import Tensor

from kernels import attention_pairs
from kernels.attention import ChunkContext, chunk_slots, decode_attention, prefill_attention, row_contexts
from tests.kernels.paged import Paged, paged, plain_attention

SHAPES = [(4, 2, 64), (6, 2, 80), (3, 1, 96), (5, 5, 128), (2, 1, 256)]
Decode = Callable[[Tensor, Paged, list[int], float, int | None, float | None], Tensor]


def gathered(
    queries: Tensor, content: Paged, lengths: list[int], scale: float, window: int | None, soft_cap: float | None
) -> Tensor:
    """Of decode rows whose contexts are gathered and padded to the longest."""
    block_size = content.keys.shape[1]
    contexts = row_contexts(content.tables, torch.tensor(lengths), max(lengths), block_size, window)
    return decode_attention(queries, content.keys, content.values, contexts, scale=scale, soft_cap=soft_cap)


def in_place(
    queries: Tensor, content: Paged, lengths: list[int], scale: float, window: int | None, soft_cap: float | None
) -> Tensor:
    """Of decode rows by pairs of query and key. A layer before this one has used the same pairs."""
    pairs = attention_pairs.row_pairs(content.tables, lengths, queries.shape[1], content.keys.shape, window)
    keys, values = content.keys.flatten(0, 2).t(), content.values.flatten(0, 2)
    for layer_queries in (torch.randn_like(queries), queries):
        found = attention_pairs.decode_attention(layer_queries, keys, values, pairs, scale, soft_cap)
    return found


both_ways = pytest.mark.parametrize("decode", [gathered, in_place])


@both_ways
@pytest.mark.parametrize(("heads", "kv_heads", "size"), SHAPES)
@pytest.mark.parametrize(("window", "soft_cap"), [(None, None), (5, None), (None, 3.0), (7, 2.0)])
def test_a_decode_row_sees_its_own_context_only(
    decode: Decode, heads: int, kv_heads: int, size: int, window: int | None, soft_cap: float | None
) -> None:
    lengths, block_size = [1, 8, 9, 23, 16], 8
    content = paged(lengths, block_size, kv_heads, size)
    queries = torch.randn(len(lengths), heads, size)
    found = decode(queries, content, lengths, 0.2, window, soft_cap)
    for row, (key, value) in enumerate(zip(content.plain_keys, content.plain_values, strict=True)):
        wanted = plain_attention(queries[row : row + 1], key, value, 0.2, window, soft_cap)
        torch.testing.assert_close(found[row : row + 1].double(), wanted, rtol=1e-4, atol=1e-5)


@both_ways
@pytest.mark.parametrize("length", range(1, 9))
def test_a_row_alone_sees_its_whole_context_however_many_heads_share_it(decode: Decode, length: int) -> None:
    """As many queries to a key head as there are tokens are no prompt."""
    content = paged([length], 4, 2, 64)
    query = torch.randn(1, 8, 64)
    found = decode(query, content, [length], 0.2, None, None)
    wanted = plain_attention(query, content.plain_keys[0], content.plain_values[0], 0.2, None, None)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("heads", "kv_heads", "size"), SHAPES[:3])
@pytest.mark.parametrize(("window", "soft_cap"), [(None, None), (5, None), (None, 3.0), (7, 2.0)])
def test_packed_chunks_see_what_is_before_each_token(
    heads: int, kv_heads: int, size: int, window: int | None, soft_cap: float | None
) -> None:
    lengths, counts, block_size = [1, 12, 40, 17], [1, 12, 9, 1], 16
    content = paged(lengths, block_size, kv_heads, size)
    queries = torch.randn(sum(counts), heads, size)
    chunks, first = [], 0
    for table, length, count in zip(content.tables, lengths, counts, strict=True):
        chunks.append(ChunkContext(first, count, chunk_slots(table, length, block_size)))
        first += count
    found = prefill_attention(
        queries, content.keys, content.values, chunks, scale=0.3, window=window, soft_cap=soft_cap
    )
    for chunk, key, value in zip(chunks, content.plain_keys, content.plain_values, strict=True):
        mine = slice(chunk.first, chunk.first + chunk.num_tokens)
        wanted = plain_attention(queries[mine], key, value, 0.3, window, soft_cap)
        torch.testing.assert_close(found[mine].double(), wanted, rtol=1e-4, atol=1e-5)


@both_ways
@pytest.mark.parametrize("block_size", [8, 16, 32, 64, 128, 256])
def test_every_block_size_gives_the_same_at_its_borders(decode: Decode, block_size: int) -> None:
    """Scenario K05, on the reference."""
    for length in (1, block_size - 1, block_size, block_size + 1, 1024):
        content = paged([length, 3], block_size, 2, 64, seed=length)
        query = torch.randn(2, 4, 64)
        found = decode(query, content, [length, 3], 0.125, None, None)
        wanted = plain_attention(query[:1], content.plain_keys[0], content.plain_values[0], 0.125, None, None)
        torch.testing.assert_close(found[:1].double(), wanted, rtol=1e-4, atol=1e-5)


@both_ways
def test_nothing_is_read_that_was_never_written(decode: Decode) -> None:
    """Scenario K03: every other slot of the pool is NaN, at every length of a block and a bit."""
    for length in range(1, 34):
        content = paged([length, 33], 16, 1, 64, seed=length)
        found = decode(torch.randn(2, 2, 64), content, [length, 33], 0.1, None, None)
        assert torch.isfinite(found).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_near(dtype: torch.dtype) -> None:
    content = paged([50, 9], 16, 2, 64, dtype)
    queries = torch.randn(2, 6, 64).to(dtype)
    found = gathered(queries, content, [50, 9], 0.125, None, None)
    wanted = plain_attention(queries[:1], content.plain_keys[0], content.plain_values[0], 0.125, None, None)
    torch.testing.assert_close(found[:1].double(), wanted, rtol=2e-2, atol=2e-2)
