"""The forward pass: packed tokens of any number of sequences, at any positions, over paged keys and values."""

from __future__ import annotations

import torch
from torch import Tensor

from backends.cuda.operations import Operations, StepAttention
from backends.cuda.rope import RopeSpec
from backends.cuda.spec import ModelSpec
from backends.cuda.step_inputs import StepInputs
from backends.cuda.weights import ExpertMlp, LayerWeights, ModelWeights
from kernels import moe


class Model:
    """A model on its device. It keeps no state of any sequence: that is in the KV pool that a call is given."""

    def __init__(self, spec: ModelSpec, weights: ModelWeights, operations: Operations, max_model_len: int) -> None:
        self.spec, self.weights, self.max_model_len = spec, weights, max_model_len
        self.operations = operations
        self._activation = operations.gelu_tanh_mul if spec.gelu else operations.silu_mul
        self._angles = {
            rope: rope.tables(spec.head_dim, max_model_len).to(self.device) for rope in dict.fromkeys(spec.ropes)
        }

    @property
    def device(self) -> torch.device:
        return self.weights.embedding.device

    @property
    def dtype(self) -> torch.dtype:
        return self.weights.embedding.dtype

    def hidden(self, inputs: StepInputs, kv: Tensor) -> Tensor:
        """Write this step's keys and values, and return the normed residual stream behind the last layer, [T, hidden].

        It and `logits` are for `torch.inference_mode`.

        Args:
            kv: [layers, 2, B, S, K, D], keys before values.
        """
        operations, weights, eps = self.operations, self.weights, self.spec.rms_eps
        residual = weights.embedding[inputs.token_ids]
        if self.spec.embedding_scale != 1.0:
            # In the model's own type, as the model was trained.
            residual *= torch.tensor(self.spec.embedding_scale, dtype=self.dtype)
        attention = operations.attention(inputs, kv)
        angles = {rope: table[:, inputs.positions].unsqueeze(2).unbind() for rope, table in self._angles.items()}
        next_norms = [layer.attention_norm for layer in weights.layers[1:]] + [weights.final_norm]
        caches = list(zip(*(part.unbind() for part in kv.flatten(2, 3).unbind(1)), strict=True))
        hidden = operations.rms_norm(residual, weights.layers[0].attention_norm, eps)
        for number, (layer, next_norm) in enumerate(zip(weights.layers, next_norms, strict=True)):
            hidden = self._attend(number, layer, hidden, inputs.slots, caches[number], attention, angles)
            if layer.behind_attention_norm is not None:
                hidden = operations.rms_norm(hidden, layer.behind_attention_norm, eps)
            hidden = self._mlp(layer, operations.add_rms_norm(hidden, residual, layer.mlp_norm, eps))
            if layer.behind_mlp_norm is not None:
                hidden = operations.rms_norm(hidden, layer.behind_mlp_norm, eps)
            hidden = operations.add_rms_norm(hidden, residual, next_norm, eps)
        return hidden

    def _attend(
        self,
        number: int,
        layer: LayerWeights,
        hidden: Tensor,
        slots: Tensor,
        cache: tuple[Tensor, ...],
        attention: StepAttention,
        angles: dict[RopeSpec, tuple[Tensor, ...]],
    ) -> Tensor:
        spec, (cos, sin), (keys, values) = self.spec, angles[self.spec.ropes[number]], cache
        query = self.operations.rotate_and_write(
            layer.qkv(hidden).view(len(hidden), -1, spec.head_dim),
            spec.heads,
            cos,
            sin,
            keys,
            values,
            slots,
            interleaved=False,
            query_norm=layer.query_norm,
            key_norm=layer.key_norm,
            eps=spec.rms_eps,
        )
        attended = attention(number, query, spec.scale, spec.windows[number], spec.attention_soft_cap)
        return layer.output(attended.flatten(1))

    def _mlp(self, layer: LayerWeights, hidden: Tensor) -> Tensor:
        mlp = layer.mlp
        if isinstance(mlp, ExpertMlp):
            experts = self.spec.experts
            assert experts is not None
            weights, chosen = moe.route(mlp.router(hidden), experts.experts_per_token, renormalise=experts.renormalise)
            return self.operations.expert_mlp(hidden, weights, chosen, mlp.gate_up, mlp.down)
        return mlp.down(self._activation(mlp.gate_up(hidden)))

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores [n, vocab] float32 of what comes behind each of [n, hidden]."""
        logits = self.weights.head(hidden).float()
        cap = self.spec.final_soft_cap
        return logits if cap is None else torch.tanh(logits / cap) * cap
