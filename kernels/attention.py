"""Attention over paged keys and values: prefill chunks behind a computed prefix, and decode rows."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention


class ChunkContext(NamedTuple):
    """One prefill chunk: which rows of the packed queries are its own, and where its context lies.

    slots: [context] int64, the slots of all its tokens from position 0 to its last one, which it has written already.
    """

    first: int
    num_tokens: int
    slots: Tensor


class RowContexts(NamedTuple):
    """The contexts of R decode rows, padded to one length.

    slots: [R, longest] int64; padding repeats a slot of the same row, so that no memory is read that was never written.
    padding: [R, longest] float32 to be added to the scores, 0 for a token and -inf behind the last.
    """

    slots: Tensor
    padding: Tensor


def chunk_slots(block_table: Tensor, context_tokens: int, block_size: int) -> Tensor:
    """The slots of positions 0 .. context_tokens - 1 of a sequence with that block table [blocks] int64."""
    offsets = torch.arange(block_size, device=block_table.device)
    return (block_table[:, None] * block_size + offsets).flatten()[:context_tokens]


def row_contexts(
    block_tables: Tensor, lengths: Tensor, longest: int, block_size: int, window: int | None = None
) -> RowContexts:
    """Where decode rows look.

    Args:
        block_tables: [R, blocks] int64; what lies behind a row's last block is not used.
        lengths: [R] int64, tokens of each row, the one that is being computed included; at least 1.
        longest: at least the largest of them.
        window: only the last so many tokens are looked at; None = all.
    """
    span = longest if window is None else min(longest, window)
    begins = (lengths - span).clamp(min=0)
    positions = begins[:, None] + torch.arange(span, device=lengths.device)
    last = lengths[:, None] - 1
    inside = torch.minimum(positions, last)
    slots = block_tables.gather(1, inside // block_size) * block_size + inside % block_size
    padding = torch.zeros(positions.shape, device=lengths.device).masked_fill_(positions > last, float("-inf"))
    return RowContexts(slots, padding)


def prefill_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    chunks: list[ChunkContext],
    *,
    scale: float,
    window: int | None = None,
    soft_cap: float | None = None,
) -> Tensor:
    """Causal attention of packed chunks [T, H, D] over paged `keys` and `values`; the same shape comes back.

    A query sees what is at or before its own position, with *window* only the last so many of these, itself included.
    *soft_cap* c replaces each score s by c * tanh(s / c).
    """
    output = torch.empty_like(queries)
    flat_keys, flat_values = keys.flatten(0, 1), values.flatten(0, 1)
    for first, count, slots in chunks:
        query = queries[first : first + count].transpose(0, 1)[None]
        key, value = (flat.index_select(0, slots).transpose(0, 1)[None] for flat in (flat_keys, flat_values))
        is_plain = soft_cap is None and count == len(slots) and (window is None or window >= count)
        mask = None if is_plain else _causal_mask(count, len(slots), window, queries.device)
        attended = _attend(query, key, value, mask, scale, soft_cap, is_causal=is_plain)
        output[first : first + count] = attended[0].transpose(0, 1)
    return output


def decode_attention(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    contexts: RowContexts,
    *,
    scale: float,
    soft_cap: float | None = None,
) -> Tensor:
    """Attention of one query per row, [R, H, D], over paged `keys` and `values`; the same shape comes back.

    The G queries of a key/value head are treated as G queries of one sequence, so keys are not repeated.
    """
    rows, heads, size = queries.shape
    kv_heads = keys.shape[2]
    query = queries.view(rows, kv_heads, heads // kv_heads, size)
    slots = contexts.slots.flatten()
    key, value = (
        cache.flatten(0, 1).index_select(0, slots).view(rows, -1, kv_heads, size).transpose(1, 2)
        for cache in (keys, values)
    )
    padding = contexts.padding[:, None, None, :].to(queries.dtype)
    return _attend(query, key, value, padding, scale, soft_cap, is_causal=False).reshape(rows, heads, size)


def _causal_mask(queries: int, context: int, window: int | None, device: torch.device) -> Tensor:
    """[queries, context] float32: 0 where a query sees a token, -inf elsewhere; the last query is the last token."""
    position = torch.arange(context - queries, context, device=device)[:, None]
    token = torch.arange(context, device=device)
    hidden = token > position
    if window is not None:
        hidden |= token <= position - window
    return torch.zeros(hidden.shape, device=device).masked_fill_(hidden, float("-inf"))


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float,
    soft_cap: float | None,
    *,
    is_causal: bool,
) -> Tensor:
    """Query heads may be a multiple of key heads. `is_causal` stands for the mask of as many queries as keys."""
    grouped = query.shape[1] != key.shape[1]
    if soft_cap is None:
        typed = mask if mask is None else mask.to(query.dtype)
        return scaled_dot_product_attention(query, key, value, typed, 0.0, is_causal, scale=scale, enable_gqa=grouped)
    if grouped:
        repeats = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
    scores = torch.tanh((query.float() @ key.float().transpose(-1, -2)) * (scale / soft_cap)) * soft_cap
    weights = (scores if mask is None else scores + mask).softmax(-1)
    return (weights @ value.float()).to(query.dtype)
