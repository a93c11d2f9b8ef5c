"""Triton: one token of each row, without sorting. Reference: `sampling.sample`.

The least score that stays is found by bisection over the ordered bit patterns of float32: exact for top-k, and for
top-p up to the rounding of a sum.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.launch import power_of_2

_LARGEST_TILE = 4096


@triton.jit
def _ordered(score):
    """Integers in the order of the float32 scores."""
    bits = score.to(tl.int32, bitcast=True)
    return (bits ^ ((bits >> 31) & 0x7FFFFFFF)).to(tl.int64)


@triton.jit
def _count_and_mass(row, divisor, best, least, V, TILE: tl.constexpr):
    """How many tokens have an ordered score of at least `least`, and their weights exp(score - best) together."""
    count = tl.zeros([TILE], tl.int32)
    mass = tl.zeros([TILE], tl.float32)
    for start in range(0, V, TILE):
        token = start + tl.arange(0, TILE)
        score = tl.load(row + token, mask=token < V, other=float("-inf")).to(tl.float32) / divisor
        stays = (token < V) & (_ordered(score) >= least)
        count += stays.to(tl.int32)
        mass += tl.where(stays, tl.exp(score - best), 0.0)
    return tl.sum(count, 0), tl.sum(mass, 0)


@triton.jit
def _sample(logits, temperatures, top_ks, top_ps, min_ps, draws, tokens, V, TILE: tl.constexpr):
    number = tl.program_id(0).to(tl.int64)
    row = logits + number * V
    temperature = tl.load(temperatures + number)
    divisor = tl.maximum(temperature, 1e-5)
    best = float("-inf")
    likeliest = 0
    for start in range(0, V, TILE):
        token = start + tl.arange(0, TILE)
        score = tl.load(row + token, mask=token < V, other=float("-inf")).to(tl.float32)
        top = tl.max(score, 0)
        if top > best:
            best = top
            likeliest = start + tl.argmax(score, 0)
    chosen = likeliest
    if temperature > 0:
        best = best / divisor
        lowest = _ordered(tl.full([1], float("-inf"), tl.float32))
        highest = _ordered(tl.zeros([1], tl.float32) + best)
        min_p = tl.load(min_ps + number)
        if min_p > 0:
            lowest = _ordered(tl.zeros([1], tl.float32) + (best + tl.log(min_p)))
        least = tl.sum(lowest, 0)
        top_k, top_p = tl.load(top_ks + number), tl.load(top_ps + number)
        if top_k > 0:
            # Law of the search: at least top_k tokens are at or above `below`, or it is the bound from min_p.
            below, above = least, tl.sum(highest, 0) + 1
            while above - below > 1:
                middle = below + (above - below) // 2
                count, _ = _count_and_mass(row, divisor, best, middle, V, TILE)
                if count >= top_k:
                    below = middle
                else:
                    above = middle
            least = below
        _, mass = _count_and_mass(row, divisor, best, least, V, TILE)
        if top_p < 1:
            wanted = top_p * mass
            below, above = least, tl.sum(highest, 0) + 1
            while above - below > 1:
                middle = below + (above - below) // 2
                _, part = _count_and_mass(row, divisor, best, middle, V, TILE)
                if part >= wanted:
                    below = middle
                else:
                    above = middle
            least = below
            _, mass = _count_and_mass(row, divisor, best, least, V, TILE)
        target = tl.load(draws + number) * mass
        passed = 0.0
        found = V
        for start in range(0, V, TILE):
            token = start + tl.arange(0, TILE)
            score = tl.load(row + token, mask=token < V, other=float("-inf")).to(tl.float32) / divisor
            stays = (token < V) & (_ordered(score) >= least)
            weight = tl.where(stays, tl.exp(score - best), 0.0)
            sums = passed + tl.cumsum(weight, 0)
            found = tl.minimum(found, tl.min(tl.where(stays & (sums > target), token, V), 0))
            passed += tl.sum(weight, 0)
        # Rounding may leave the draw above every sum: then the likeliest is as good as the last.
        chosen = tl.where(found < V, found, likeliest)
    tl.store(tokens + number, chosen)


def sample(
    logits: Tensor, temperatures: Tensor, top_ks: Tensor, top_ps: Tensor, min_ps: Tensor, draws: Tensor
) -> Tensor:
    """See `sampling.sample`; *logits* are contiguous."""
    rows, vocab = logits.shape
    tokens = torch.empty(rows, dtype=torch.int64, device=logits.device)
    tile = min(_LARGEST_TILE, power_of_2(vocab))
    _sample[(rows,)](logits, temperatures, top_ks, top_ps, min_ps, draws, tokens, vocab, TILE=tile)
    return tokens
