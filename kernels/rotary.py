"""Rotary position embedding with query/key norms before it and the write of keys and values behind it."""

from __future__ import annotations

from torch import Tensor

from kernels.norm import rms_norm


def rotate(x: Tensor, cos: Tensor, sin: Tensor, *, interleaved: bool) -> Tensor:
    """Rotate pairs of x [T, heads, D] by the angles of each token.

    A pair is (x[i], x[i + D/2]), or (x[2i], x[2i+1]) when interleaved. It becomes
    (x[i] * cos - partner * sin, partner * cos + x[i] * sin).

    Args:
        cos: [T, 1, D] float32, the same for both of a pair.
        sin: [T, 1, D] float32, for the first of a pair the negative.
    """
    wide = x.float()
    partner = wide.unflatten(-1, (-1, 2)).flip(-1).flatten(-2) if interleaved else wide.roll(x.shape[-1] // 2, -1)
    turned = (wide * cos).addcmul_(partner, sin)
    return turned if wide is x else turned.to(x.dtype)


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
    """Write this step's keys, rotated, and values to their slots; returns the rotated queries [T, H, D].

    Args:
        projected: [T, H + 2K, D], the heads of queries, keys and values; `num_queries` is H.
        cos, sin: see `rotate`.
        key_cache, value_cache: [B * S, K, D], written at `slots` [T] int64.
        query_norm, key_norm: [D] float32 weights of a norm of each head before the rotation; None = no norm.
    """
    num_keys = key_cache.shape[1]
    turning, values = projected.split([num_queries + num_keys, num_keys], 1)
    if query_norm is None or key_norm is None:
        queries, keys = rotate(turning, cos, sin, interleaved=interleaved).split([num_queries, num_keys], 1)
    else:
        queries, keys = turning.split([num_queries, num_keys], 1)
        queries = rotate(rms_norm(queries, query_norm, eps), cos, sin, interleaved=interleaved)
        keys = rotate(rms_norm(keys, key_norm, eps), cos, sin, interleaved=interleaved)
    key_cache.index_copy_(0, slots, keys)
    value_cache.index_copy_(0, slots, values)
    return queries
