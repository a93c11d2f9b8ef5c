"""Triton: an MLP of experts as two grouped products. Reference: `moe.expert_mlp`.

Pairs of a token and one of its experts are sorted by expert, and each program multiplies a tile of pairs of one expert.
How many tiles an expert has is worked out on the device, so the host waits for nothing and a graph can hold it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels.activation_triton import silu_mul
from kernels.launch import dot_precision, power_of_2

_FEW_PAIRS, _MANY_PAIRS = 16, 64
_OUTPUTS = 64
_INPUTS = 32


class Groups(NamedTuple):
    """P pairs sorted by expert.

    order: [P] int64, place of each among the unsorted ones, token * experts_per_token + choice. ends: [experts] int64,
    how many pairs belong to the experts up to each. tile_ends: [experts] int64, how many tiles of `tile` pairs.
    num_tiles: at least as many as there are.
    """

    order: Tensor
    ends: Tensor
    tile_ends: Tensor
    tile: int
    num_tiles: int


def grouped(experts: Tensor, num_experts: int) -> Groups:
    """The pairs of `experts` [T, experts_per_token]."""
    chosen = experts.flatten()
    counts = torch.zeros(num_experts, dtype=torch.int64, device=experts.device)
    counts.scatter_add_(0, chosen, torch.ones_like(chosen))
    tile = _FEW_PAIRS if len(chosen) <= _FEW_PAIRS * num_experts else _MANY_PAIRS
    tiles = (counts + tile - 1) // tile
    most = min(len(chosen), triton.cdiv(len(chosen), tile) + num_experts)
    return Groups(chosen.argsort(stable=True), counts.cumsum(0), tiles.cumsum(0), tile, most)


@triton.jit
def _multiply(
    x, weights, order, ends, tile_ends, shares, output, inputs, outputs,
    EXPERTS: tl.constexpr, PER_TOKEN: tl.constexpr, DOWN: tl.constexpr, PRECISION: tl.constexpr,
    ALL: tl.constexpr, TILE: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """One tile of pairs of one expert, times a tile of its outputs.

    Upwards a pair reads its token's row of x and writes its own row, in sorted order; downwards it reads that row and
    writes its own among the unsorted ones, times its share.
    """
    tile = tl.program_id(0)
    expert_ids = tl.arange(0, ALL)
    listed = tl.load(tile_ends + expert_ids, mask=expert_ids < EXPERTS, other=0)
    is_before = (listed <= tile) & (expert_ids < EXPERTS)
    expert = tl.sum(is_before.to(tl.int32), 0)
    if expert < EXPERTS:
        first_tile = tl.max(tl.where(is_before, listed, 0), 0)
        counted = tl.load(ends + expert_ids, mask=expert_ids < EXPERTS, other=0)
        first_pair = tl.max(tl.where(is_before, counted, 0), 0)
        last_pair = tl.load(ends + expert)
        pair = first_pair + (tile - first_tile) * TILE + tl.arange(0, TILE)
        is_pair = pair < last_pair
        unsorted = tl.load(order + pair, mask=is_pair, other=0)
        source = pair if DOWN else unsorted // PER_TOKEN
        target = unsorted if DOWN else pair
        column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
        is_column = column < outputs
        matrix = weights + expert.to(tl.int64) * outputs * inputs
        total = tl.zeros([TILE, COLUMNS], tl.float32)
        for start in range(0, inputs, DEPTH):
            depth = start + tl.arange(0, DEPTH)
            is_depth = depth < inputs
            rows = tl.load(
                x + source[:, None] * inputs + depth[None, :], mask=is_pair[:, None] & is_depth[None, :], other=0.0
            )
            columns = tl.load(
                matrix + column[None, :] * inputs + depth[:, None],
                mask=is_column[None, :] & is_depth[:, None],
                other=0.0,
            )
            total += tl.dot(rows, columns, input_precision=PRECISION)
        if DOWN:
            # The reference rounds to the type of x before it weighs.
            total = total.to(x.dtype.element_ty).to(tl.float32)
            total *= tl.load(shares + unsorted, mask=is_pair, other=0.0)[:, None]
        tl.store(
            output + target[:, None] * outputs + column[None, :],
            total.to(output.dtype.element_ty),
            mask=is_pair[:, None] & is_column[None, :],
        )


def expert_mlp(x: Tensor, weights: Tensor, experts: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """See `moe.expert_mlp`; all are contiguous."""
    num_experts, width_2, hidden = gate_up.shape
    per_token, pairs = experts.shape[1], experts.numel()
    groups = grouped(experts, num_experts)
    both = torch.empty(pairs, width_2, dtype=x.dtype, device=x.device)
    _launch(x, gate_up, groups, weights, both, per_token, down=False)
    results = torch.empty(pairs, hidden, dtype=torch.float32, device=x.device)
    _launch(silu_mul(both), down, groups, weights, results, per_token, down=True)
    return results.view(-1, per_token, hidden).sum(1).to(x.dtype)


def _launch(
    x: Tensor, matrices: Tensor, groups: Groups, shares: Tensor, output: Tensor, per_token: int, *, down: bool
) -> None:
    num_experts, outputs, inputs = matrices.shape
    _multiply[(groups.num_tiles, triton.cdiv(outputs, _OUTPUTS))](
        x, matrices, groups.order, groups.ends, groups.tile_ends, shares, output, inputs, outputs,
        EXPERTS=num_experts, PER_TOKEN=per_token, DOWN=down, PRECISION=dot_precision(x),
        ALL=power_of_2(num_experts), TILE=groups.tile, COLUMNS=_OUTPUTS, DEPTH=_INPUTS,
    )  # fmt: skip
