"""Triton: gated activations. References in `activation`."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 1024


@triton.jit
def _gate(gate_up, output, width, GELU: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    gate = tl.load(gate_up + row * 2 * width + column, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(gate_up + row * 2 * width + width + column, mask=inside, other=0.0)
    kind = up.dtype
    if GELU:
        # 1 + tanh(z) is 2 * sigmoid(2z); 1.5957... is 2 * sqrt(2 / pi).
        active = gate * tl.sigmoid(1.5957691216057308 * (gate + 0.044715 * gate * gate * gate))
    else:
        active = gate * tl.sigmoid(gate)
    product = active.to(kind).to(tl.float32) * up.to(tl.float32)
    tl.store(output + row * width + column, product.to(kind), mask=inside)


def silu_mul(gate_up: Tensor) -> Tensor:
    """See `activation.silu_mul`; *gate_up* is contiguous."""
    return _launch(gate_up, gelu=False)


def gelu_tanh_mul(gate_up: Tensor) -> Tensor:
    """See `activation.gelu_tanh_mul`; *gate_up* is contiguous."""
    return _launch(gate_up, gelu=True)


def _launch(gate_up: Tensor, *, gelu: bool) -> Tensor:
    rows, width = gate_up.shape[0], gate_up.shape[1] // 2
    output = torch.empty(rows, width, dtype=gate_up.dtype, device=gate_up.device)
    _gate[(rows, triton.cdiv(width, _BLOCK))](gate_up, output, width, GELU=gelu, BLOCK=_BLOCK)
    return output
