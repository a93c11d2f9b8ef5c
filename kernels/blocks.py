"""Whole KV blocks: gathered into one image for a swap, scattered back, copied within the pool.

The pool of all layers is [layers, 2, B, S, K, D], keys before values; an image of n blocks is [layers, 2, n, S, K, D].
"""

from __future__ import annotations

from torch import Tensor


def gather_blocks(pool: Tensor, blocks: Tensor) -> Tensor:
    """The image of `blocks` [n] int64, in that order."""
    return pool.index_select(2, blocks)


def scatter_blocks(pool: Tensor, blocks: Tensor, image: Tensor) -> None:
    """Write an image to `blocks` [n] int64, each at most once."""
    pool.index_copy_(2, blocks, image)


def copy_blocks(pool: Tensor, sources: Tensor, targets: Tensor) -> None:
    """Copy block sources[i] to targets[i]; no target is a source."""
    pool.index_copy_(2, targets, pool.index_select(2, sources))
