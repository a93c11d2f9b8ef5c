"""The gated activations of an MLP."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import gelu, silu


def silu_mul(gate_up: Tensor) -> Tensor:
    """silu(gate) * up of [T, 2 * width], the gate first; [T, width] comes back."""
    gate, up = gate_up.chunk(2, -1)
    return silu(gate).mul_(up)


def gelu_tanh_mul(gate_up: Tensor) -> Tensor:
    """The same with the tanh approximation of GeLU."""
    gate, up = gate_up.chunk(2, -1)
    return gelu(gate, approximate="tanh").mul_(up)
