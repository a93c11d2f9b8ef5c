"""Root-mean-square normalisation, with the residual addition before it."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * weight over the last dimension, in float32; comes back in the type of x.

    *weight* is float32 whatever the type of x, so that a model whose weights are distances from 1 loses nothing.
    """
    width = x.shape[-1]
    wide = x.float()
    root = torch.linalg.vector_norm(wide, 2, -1, True).hypot_(_root(eps * width))
    return torch.div(wide, root).mul_(weight * width**0.5).to(x.dtype)


def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Add x [T, width] to `residual` in place and return the norm of the sum."""
    residual += x
    return rms_norm(residual, weight, eps)


@lru_cache
def _root(square: float) -> Tensor:
    """Its square root, as hypot takes it."""
    return torch.tensor(square**0.5)
