"""The operations of a device that is a CPU: the torch references, but for what has a faster way in float32."""

from __future__ import annotations

import torch
from torch import Tensor

from backends.cuda.operations import ReferenceAttention, ReferenceOperations, StepAttention
from backends.cuda.step_inputs import StepInputs
from kernels import attention_pairs


class CpuOperations(ReferenceOperations):
    """Unlike the references they read lengths on the host, so a step cannot be recorded."""

    def attention(self, inputs: StepInputs, block_size: int) -> StepAttention:
        return CpuAttention(inputs, block_size)


class CpuAttention(ReferenceAttention):
    """Decode rows in float32 go by pairs of query and key."""

    def __init__(self, inputs: StepInputs, block_size: int) -> None:
        super().__init__(inputs, block_size)
        self._lengths: list[int] = inputs.lengths.tolist()
        self._pairs: dict[int | None, attention_pairs.Pairs] = {}

    def decode(
        self, queries: Tensor, keys: Tensor, values: Tensor, scale: float, window: int | None, soft_cap: float | None
    ) -> Tensor:
        if queries.dtype != torch.float32:
            return super().decode(queries, keys, values, scale, window, soft_cap)
        if window not in self._pairs:
            self._pairs[window] = attention_pairs.row_pairs(
                self._inputs.block_tables, self._lengths, queries.shape[1], keys.shape, window
            )
        return attention_pairs.decode_attention(
            queries, keys, values, self._pairs[window], scale=scale, soft_cap=soft_cap
        )
