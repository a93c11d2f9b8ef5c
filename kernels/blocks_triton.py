"""Triton: whole KV blocks gathered, scattered and copied. References in `blocks`."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 1024


@triton.jit
def _copy(source, target, source_blocks, target_blocks, source_layer, target_layer, size, BLOCK: tl.constexpr):
    """Block `source_blocks[i]` of each layer's keys or values to `target_blocks[i]`; offsets need 64 bits."""
    layer = tl.program_id(0).to(tl.int64)
    number = tl.program_id(1)
    element = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    inside = element < size
    begin = layer * source_layer + tl.load(source_blocks + number) * size
    end = layer * target_layer + tl.load(target_blocks + number) * size
    tl.store(target + end + element, tl.load(source + begin + element, mask=inside), mask=inside)


def gather_blocks(pool: Tensor, blocks: Tensor) -> Tensor:
    """See `blocks.gather_blocks`; the pool is contiguous."""
    image = torch.empty(*pool.shape[:2], len(blocks), *pool.shape[3:], dtype=pool.dtype, device=pool.device)
    _launch(pool, image, blocks, torch.arange(len(blocks), device=pool.device))
    return image


def scatter_blocks(pool: Tensor, blocks: Tensor, image: Tensor) -> None:
    """See `blocks.scatter_blocks`; both are contiguous."""
    _launch(image, pool, torch.arange(len(blocks), device=pool.device), blocks)


def copy_blocks(pool: Tensor, sources: Tensor, targets: Tensor) -> None:
    """See `blocks.copy_blocks`; the pool is contiguous."""
    _launch(pool, pool, sources, targets)


def _launch(source: Tensor, target: Tensor, source_blocks: Tensor, target_blocks: Tensor) -> None:
    size = source[0, 0, 0].numel()
    grid = (source.shape[0] * source.shape[1], len(source_blocks), triton.cdiv(size, _BLOCK))
    layers = source.shape[2] * size, target.shape[2] * size
    _copy[grid](source, target, source_blocks, target_blocks, *layers, size, BLOCK=_BLOCK)
