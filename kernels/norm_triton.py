"""Triton: root-mean-square norm, with the residual addition in the same pass. References in `norm`."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.launch import power_of_2


@triton.jit
def _norm(x, residual, weight, output, width, eps, ADD: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < width
    value = tl.load(x + row * width + column, mask=inside, other=0.0).to(tl.float32)
    if ADD:
        stored = tl.load(residual + row * width + column, mask=inside, other=0.0)
        # Rounded as the residual is kept, so that the norm is that of what the next layer reads.
        total = (value + stored.to(tl.float32)).to(stored.dtype)
        tl.store(residual + row * width + column, total, mask=inside)
        value = total.to(tl.float32)
    factor = tl.rsqrt(tl.sum(value * value, 0) / width + eps)
    scaled = value * factor * tl.load(weight + column, mask=inside, other=0.0)
    tl.store(output + row * width + column, scaled.to(output.dtype.element_ty), mask=inside)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """See `norm.rms_norm`; *x* is contiguous."""
    output, width = torch.empty_like(x), x.shape[-1]
    _norm[(x.numel() // width,)](x, x, weight, output, width, eps, ADD=False, BLOCK=power_of_2(width))
    return output


def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> Tensor:
    """See `norm.add_rms_norm`; both are contiguous."""
    output, width = torch.empty_like(x), x.shape[-1]
    _norm[(x.numel() // width,)](x, residual, weight, output, width, eps, ADD=True, BLOCK=power_of_2(width))
    return output
