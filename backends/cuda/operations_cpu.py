"""The operations of a device that is a CPU: the torch references, but for what has a faster way in float32."""

from __future__ import annotations

import torch
from torch import Tensor

from backends.cuda.operations import ReferenceAttention, ReferenceOperations, StepAttention
from backends.cuda.step_inputs import StepInputs
from kernels import attention_pairs


class CpuOperations(ReferenceOperations):
    """Unlike the references they read lengths on the host, so a step cannot be recorded."""

    def attention(self, inputs: StepInputs, kv: Tensor) -> StepAttention:
        return CpuAttention(inputs, kv) if kv.dtype == torch.float32 else ReferenceAttention(inputs, kv)


class CpuAttention(ReferenceAttention):
    """Decode rows go by pairs of query and key. Views of every layer are made at once: one made behind a product that
    has emptied the caches takes ten times as long.
    """

    def __init__(self, inputs: StepInputs, kv: Tensor) -> None:
        super().__init__(inputs, kv)
        self._pairs: dict[int | None, attention_pairs.Pairs] = {}
        flat = kv.flatten(2, 4)
        self._keys, self._values = flat[:, 0].transpose(1, 2).unbind(), flat[:, 1].unbind()

    def decode(self, layer: int, queries: Tensor, scale: float, window: int | None, soft_cap: float | None) -> Tensor:
        pairs = self._pairs.get(window)
        if pairs is None:
            pairs = self._pairs[window] = attention_pairs.row_pairs(
                self.inputs.block_tables, self.inputs.lengths.tolist(), queries.shape[1], self._kv.shape[2:], window
            )
        return attention_pairs.decode_attention(queries, self._keys[layer], self._values[layer], pairs, scale, soft_cap)
