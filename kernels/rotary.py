"""Rotary position embedding with query/key norms before it and the write of keys and values behind it."""

from __future__ import annotations

import torch
from torch import Tensor

from kernels.norm import rms_norm


def rotate(x: Tensor, cos: Tensor, sin: Tensor, *, interleaved: bool) -> Tensor:
    """Rotate pairs of x [T, heads, D] by the angles of each token, cos and sin [T, D/2] float32.

    A pair is (x[i], x[i + D/2]), or (x[2i], x[2i+1]) when interleaved.
    """
    cos, sin = cos[:, None, :], sin[:, None, :]
    if interleaved:
        first, second = x[..., 0::2].float(), x[..., 1::2].float()
        turned = torch.stack((first * cos - second * sin, second * cos + first * sin), -1)
        return turned.flatten(-2).to(x.dtype)
    first, second = x.float().chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1).to(x.dtype)


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
    """Write this step's keys, rotated, and values to their slots; returns the rotated queries.

    Args:
        queries, keys, values: [T, H, D], [T, K, D], [T, K, D].
        key_cache, value_cache: [B, S, K, D], written at `slots` [T] int64.
        query_norm, key_norm: [D] float32 weights of a norm of each head before the rotation; None = no norm.
    """
    if query_norm is not None:
        queries = rms_norm(queries, query_norm, eps)
    if key_norm is not None:
        keys = rms_norm(keys, key_norm, eps)
    key_cache.flatten(0, 1).index_copy_(0, slots, rotate(keys, cos, sin, interleaved=interleaved))
    value_cache.flatten(0, 1).index_copy_(0, slots, values)
    return rotate(queries, cos, sin, interleaved=interleaved)
