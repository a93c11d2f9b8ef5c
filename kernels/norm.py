"""Root-mean-square normalisation, with the residual addition before it."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * weight over the last dimension, in float32; comes back in the type of x.

    *weight* is float32 whatever the type of x, so that a model whose weights are distances from 1 loses nothing.
    """
    wide = x.float()
    least, nothing, root_width = _constants(eps, x.size(-1), x.device)
    length = torch.linalg.vector_norm(wide, 2, -1, True).hypot_(least)
    normed = torch.addcdiv(nothing, wide, length, value=root_width).mul_(weight)
    return normed if wide is x else normed.to(x.dtype)


def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Add x [T, width] to `residual` in place and return the norm of the sum."""
    residual += x
    return rms_norm(residual, weight, eps)


@lru_cache
def _constants(eps: float, width: int, device: torch.device) -> tuple[Tensor, Tensor, float]:
    """What sqrt(mean(x^2) + eps) has instead of an x of length 0, times sqrt(width); a zero; sqrt(width).

    Operations on tensors alone take half the time of those that are given a number.
    """
    return torch.tensor((eps * width) ** 0.5, device=device), torch.zeros((), device=device), width**0.5
