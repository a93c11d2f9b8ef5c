"""The operations of a device, and how each kind of attention finds its context in one step."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from backends.cuda.step_inputs import StepInputs
from kernels import activation, attention, blocks, moe, norm, rotary, sampling


class StepAttention(Protocol):
    """Attention of one step's packed queries, prepared once and used by every layer."""

    def __call__(self, layer: int, queries: Tensor, scale: float, window: int | None, soft_cap: float | None) -> Tensor:
        """Queries [T, H, D] over the paged keys and values of that layer; the same shape comes back."""
        ...


class Operations(Protocol):
    """Everything that a device does with tensors but matrix products; see `kernels` for each."""

    def rms_norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor: ...

    def add_rms_norm(self, x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> Tensor: ...

    def silu_mul(self, gate_up: Tensor) -> Tensor: ...

    def gelu_tanh_mul(self, gate_up: Tensor) -> Tensor: ...

    def rotate_and_write(
        self,
        projected: Tensor,
        num_queries: int,
        cos: Tensor,
        sin: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        slots: Tensor,
        *,
        interleaved: bool,
        query_norm: Tensor | None,
        key_norm: Tensor | None,
        eps: float,
    ) -> Tensor: ...

    def expert_mlp(self, x: Tensor, weights: Tensor, experts: Tensor, gate_up: Tensor, down: Tensor) -> Tensor: ...

    def attention(self, inputs: StepInputs, kv: Tensor) -> StepAttention: ...

    def sample(
        self, logits: Tensor, temperatures: Tensor, top_ks: Tensor, top_ps: Tensor, min_ps: Tensor, draws: Tensor
    ) -> Tensor: ...

    def gather_blocks(self, pool: Tensor, blocks: Tensor) -> Tensor: ...

    def scatter_blocks(self, pool: Tensor, blocks: Tensor, image: Tensor) -> None: ...


class ReferenceOperations:
    """The torch references; they run on any device."""

    rms_norm = staticmethod(norm.rms_norm)
    add_rms_norm = staticmethod(norm.add_rms_norm)
    silu_mul = staticmethod(activation.silu_mul)
    gelu_tanh_mul = staticmethod(activation.gelu_tanh_mul)
    rotate_and_write = staticmethod(rotary.rotate_and_write)
    expert_mlp = staticmethod(moe.expert_mlp)
    sample = staticmethod(sampling.sample)
    gather_blocks = staticmethod(blocks.gather_blocks)
    scatter_blocks = staticmethod(blocks.scatter_blocks)

    def attention(self, inputs: StepInputs, kv: Tensor) -> StepAttention:
        return ReferenceAttention(inputs, kv)


def operations_for(device: torch.device) -> Operations:
    """Triton's kernels on a GPU, torch elsewhere."""
    if device.type != "cuda":
        from backends.cuda.operations_cpu import CpuOperations

        return CpuOperations()
    from backends.cuda.operations_triton import TritonOperations

    return TritonOperations()


class ReferenceAttention:
    """Slots of every context, worked out once for all layers of a kind."""

    def __init__(self, inputs: StepInputs, kv: Tensor) -> None:
        self.inputs, self._kv = inputs, kv
        self._split, block_size = inputs.num_chunk_tokens, kv.shape[3]
        self._chunks = [
            attention.ChunkContext(
                chunk.first,
                chunk.num_tokens,
                attention.chunk_slots(chunk.block_table, chunk.start + chunk.num_tokens, block_size),
            )
            for chunk in inputs.chunks
        ]
        self._rows: dict[int | None, attention.RowContexts] = {}

    def __call__(self, layer: int, queries: Tensor, scale: float, window: int | None, soft_cap: float | None) -> Tensor:
        if not self._chunks:
            return self.decode(layer, queries, scale, window, soft_cap)
        keys, values = self._kv[layer]
        chunks = attention.prefill_attention(
            queries[: self._split], keys, values, self._chunks, scale=scale, window=window, soft_cap=soft_cap
        )
        if len(queries) == self._split:
            return chunks
        return torch.cat((chunks, self.decode(layer, queries[self._split :], scale, window, soft_cap)))

    def decode(self, layer: int, queries: Tensor, scale: float, window: int | None, soft_cap: float | None) -> Tensor:
        """Of the decode rows' queries."""
        if window not in self._rows:
            inputs = self.inputs
            self._rows[window] = attention.row_contexts(
                inputs.block_tables, inputs.lengths, inputs.longest, self._kv.shape[3], window
            )
        keys, values = self._kv[layer]
        return attention.decode_attention(queries, keys, values, self._rows[window], scale=scale, soft_cap=soft_cap)
