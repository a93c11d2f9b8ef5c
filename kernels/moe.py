"""Mixture of experts: routing, and an MLP whose tokens are grouped by expert."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import linear

from kernels.activation import silu_mul


def route(router_logits: Tensor, experts_per_token: int, *, renormalise: bool) -> tuple[Tensor, Tensor]:
    """The experts of each token and their weights, both [T, experts_per_token]; weights are float32.

    Weights are the softmax over all experts, *renormalise*d to sum to 1 over the chosen ones.
    """
    weights, experts = router_logits.float().softmax(-1).topk(experts_per_token, -1)
    if renormalise:
        weights = weights / weights.sum(-1, keepdim=True)
    return weights, experts


def expert_mlp(x: Tensor, weights: Tensor, experts: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """The weighted sum of each token's experts, [T, hidden].

    Args:
        x: [T, hidden].
        weights, experts: [T, experts_per_token], as `route` gives them.
        gate_up: [experts, 2 * width, hidden], the gate first.
        down: [experts, hidden, width].
    """
    output = torch.zeros(x.shape, dtype=torch.float32, device=x.device)
    order = experts.flatten().argsort(stable=True)
    counts = experts.flatten().bincount(minlength=len(gate_up)).tolist()
    for expert, members in enumerate(order.split(counts)):
        if len(members):
            tokens = members // experts.shape[1]
            result = linear(silu_mul(linear(x[tokens], gate_up[expert])), down[expert])
            output.index_add_(0, tokens, result.float() * weights.flatten()[members, None])
    return output.to(x.dtype)
