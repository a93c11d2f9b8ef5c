"""Choosing the next token. A row's choice depends on its logits, its parameters, its seed and its output index only."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

_MIX_1, _MIX_2, _STEP = -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15, -0x61C8864680B583EB
_LOW_24 = (1 << 24) - 1


class Logprobs(NamedTuple):
    """Natural logarithms of probabilities before any sampling parameter.

    chosen: [R]; top: [R, n] and their token ids, best first; rank: [R], how many tokens are at least as likely.
    """

    chosen: Tensor
    top: Tensor
    top_ids: Tensor
    rank: Tensor


def greedy(logits: Tensor) -> Tensor:
    """The likeliest token of each row of [R, V], the lowest id among equals; [R] int64."""
    return logits.argmax(-1)


def uniforms(seeds: Tensor, output_indices: Tensor) -> Tensor:
    """A float32 in [0, 1) for each (seed, output index), both [R] int64.

    Twice the finaliser of SplitMix64 (Steele, Lea, Flood 2014), over the seed and then over the index.
    """
    bits = _mix(_mix(seeds + _STEP) + (output_indices + 1) * _STEP)
    return ((bits >> 32) & _LOW_24).float() * 2.0**-24


def sample(
    logits: Tensor, temperatures: Tensor, top_ks: Tensor, top_ps: Tensor, min_ps: Tensor, draws: Tensor
) -> Tensor:
    """One token of each row of [R, V] by inversion of the distribution function in the order of ids; [R] int64.

    In this order: scores are divided by the temperature; tokens less likely than min_p times the likeliest go; tokens
    less likely than the top_k-th go; of the rest the likeliest stay until they hold top_p of its probability. Tokens
    that are equally likely stay or go together, so the result does not depend on an order among equals.

    Args:
        temperatures: [R] float32; 0 = greedy.
        top_ks: [R] int64; 0 = all.
        top_ps, min_ps: [R] float32; 1 and 0 = all.
        draws: [R] float32 in [0, 1), see `uniforms`.
    """
    scaled = logits.float() / temperatures.clamp(min=1e-5)[:, None]
    probabilities = scaled.softmax(-1)
    floor = min_ps[:, None] * probabilities.amax(-1, keepdim=True)
    probabilities = _from(probabilities, floor)
    ranked = probabilities.sort(-1, descending=True).values
    wanted = torch.where(top_ks > 0, top_ks, logits.shape[-1]).clamp(max=logits.shape[-1])
    floor = ranked.gather(-1, wanted[:, None] - 1)
    probabilities, ranked = _from(probabilities, floor), _from(ranked, floor)
    before = ranked.double().cumsum(-1) - ranked
    needed = (
        (before < top_ps[:, None].double() * ranked.double().sum(-1, keepdim=True)).sum(-1, keepdim=True).clamp(min=1)
    )
    probabilities = _from(probabilities, ranked.gather(-1, needed - 1))
    chosen = _invert(probabilities, draws)
    return torch.where(temperatures > 0, chosen, greedy(logits))


def logprobs(logits: Tensor, tokens: Tensor, num_top: int) -> Logprobs:
    """Of the chosen `tokens` [R] and the likeliest `num_top` of each row of [R, V]."""
    scores = logits.float().log_softmax(-1)
    chosen = scores.gather(-1, tokens[:, None])
    top = scores.topk(num_top, -1)
    return Logprobs(chosen[:, 0], top.values, top.indices, (scores >= chosen).sum(-1))


def _mix(bits: Tensor) -> Tensor:
    bits = (bits ^ _shifted(bits, 30)) * _MIX_1
    bits = (bits ^ _shifted(bits, 27)) * _MIX_2
    return bits ^ _shifted(bits, 31)


def _shifted(bits: Tensor, by: int) -> Tensor:
    """A logical shift: int64 has only the arithmetic one."""
    return (bits >> by) & ((1 << (64 - by)) - 1)


def _from(values: Tensor, floor: Tensor) -> Tensor:
    return torch.where(values >= floor, values, 0)


def _invert(weights: Tensor, draws: Tensor) -> Tensor:
    """The first token whose cumulated weight exceeds the draw's share of all; it has a weight itself."""
    sums = weights.double().cumsum(-1)
    target = draws.double()[:, None] * sums[:, -1:]
    return torch.searchsorted(sums, target, right=True)[:, 0].clamp(max=weights.shape[-1] - 1)
