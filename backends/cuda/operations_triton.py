"""The operations of a device that is a GPU: Triton's kernels."""

from __future__ import annotations

import torch
from torch import Tensor

from backends.cuda.operations import StepAttention
from backends.cuda.step_inputs import StepInputs
from kernels import (
    activation_triton,
    blocks_triton,
    decode_triton,
    moe_triton,
    norm_triton,
    prefill_triton,
    rotary_triton,
    sampling_triton,
)


class TritonOperations:
    """Kernels only; each is tested against its reference."""

    rms_norm = staticmethod(norm_triton.rms_norm)
    add_rms_norm = staticmethod(norm_triton.add_rms_norm)
    silu_mul = staticmethod(activation_triton.silu_mul)
    gelu_tanh_mul = staticmethod(activation_triton.gelu_tanh_mul)
    rotate_and_write = staticmethod(rotary_triton.rotate_and_write)
    expert_mlp = staticmethod(moe_triton.expert_mlp)
    sample = staticmethod(sampling_triton.sample)
    gather_blocks = staticmethod(blocks_triton.gather_blocks)
    scatter_blocks = staticmethod(blocks_triton.scatter_blocks)

    def attention(self, inputs: StepInputs, kv: Tensor) -> StepAttention:
        return TritonAttention(inputs, kv)


class TritonAttention:
    """Tiles of the chunks, cut once for all layers; decode rows need nothing but their tables."""

    def __init__(self, inputs: StepInputs, kv: Tensor) -> None:
        self._inputs, self._kv = inputs, kv
        self._split = inputs.num_chunk_tokens
        if inputs.chunks:
            shapes = [(chunk.first, chunk.num_tokens, chunk.start) for chunk in inputs.chunks]
            tables = [chunk.block_table for chunk in inputs.chunks]
            self._tiles = prefill_triton.chunk_tiles(shapes, tables, inputs.token_ids.device)

    def __call__(self, layer: int, queries: Tensor, scale: float, window: int | None, soft_cap: float | None) -> Tensor:
        (keys, values), inputs, parts = self._kv[layer], self._inputs, []
        if self._split:
            parts.append(
                prefill_triton.prefill_attention(
                    queries[: self._split], keys, values, self._tiles, scale=scale, window=window, soft_cap=soft_cap
                )
            )
        if len(queries) > self._split:
            parts.append(
                decode_triton.decode_attention(
                    queries[self._split :],
                    keys,
                    values,
                    inputs.block_tables,
                    inputs.lengths,
                    inputs.longest,
                    scale=scale,
                    window=window,
                    soft_cap=soft_cap,
                )
            )
        return parts[0] if len(parts) == 1 else torch.cat(parts)
