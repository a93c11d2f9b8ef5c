"""Root-mean-square normalisation, with the residual addition before it."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import rms_norm as torch_rms_norm


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * weight over the last dimension, in float32; comes back in the type of x.

    *weight* is float32 whatever the type of x, so that a model whose weights are distances from 1 loses nothing.
    """
    return torch_rms_norm(x.float(), weight.shape, weight, eps).to(x.dtype)


def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Add x [T, width] to `residual` in place and return the norm of the sum."""
    residual += x
    return rms_norm(residual, weight, eps)
