"""A model's weights in the form in which the forward pass reads them, checked against its specification."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from backends.cuda.checkpoint import Checkpoint, expert_names
from backends.cuda.host_memory import HugePages
from backends.cuda.matrix import Matrix
from backends.cuda.spec import ModelSpec
from schedlab.errors import UsageError


@dataclass(slots=True)
class DenseMlp:
    """gate_up [2 * width, hidden], the gate first; down [hidden, width]."""

    gate_up: Matrix
    down: Matrix


@dataclass(slots=True)
class ExpertMlp:
    """router [experts, hidden]; gate_up [experts, 2 * width, hidden]; down [experts, hidden, width]."""

    router: Matrix
    gate_up: Tensor
    down: Tensor


@dataclass(slots=True)
class LayerWeights:
    """One layer. Norm weights are float32 and true factors, whatever the checkpoint stores.

    qkv [(H + 2K) * D, hidden]: queries, keys, values; output [hidden, H * D]. The norms behind attention and MLP exist
    in models with sandwich norms only, those of queries and keys [D] where the heads are normalised.
    """

    attention_norm: Tensor
    qkv: Matrix
    output: Matrix
    mlp_norm: Tensor
    mlp: DenseMlp | ExpertMlp
    query_norm: Tensor | None = None
    key_norm: Tensor | None = None
    behind_attention_norm: Tensor | None = None
    behind_mlp_norm: Tensor | None = None


@dataclass(slots=True)
class ModelWeights:
    """embedding [vocab, hidden]; a tied head has the same content, on a GPU the same memory."""

    embedding: Tensor
    layers: list[LayerWeights]
    final_norm: Tensor
    head: Matrix

    @property
    def num_bytes(self) -> int:
        """Memory that they take."""
        owners: list[object] = [self, *self.layers, *(layer.mlp for layer in self.layers)]
        values = [getattr(owner, name) for owner in owners for name in owner.__slots__]  # type: ignore[attr-defined]
        tensors = sum(value.nbytes for value in values if isinstance(value, Tensor))
        matrices = sum(value.num_bytes for value in values if isinstance(value, Matrix))
        shared = self.embedding.nbytes if self.head.panels.data_ptr() == self.embedding.data_ptr() else 0
        return int(tensors + matrices - shared)


def assemble(
    spec: ModelSpec,
    checkpoint: Checkpoint,
    dtype: torch.dtype,
    device: torch.device,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> ModelWeights:
    """Read and convert everything; `progress` is told of layers done.

    Raises UsageError for a tensor that is missing, too many, of another shape, of a type that cannot be read, or with
    values that are no numbers.
    """
    return _Assembly(spec, checkpoint, dtype, device).model(progress)


class _Assembly:
    def __init__(self, spec: ModelSpec, checkpoint: Checkpoint, dtype: torch.dtype, device: torch.device) -> None:
        self.spec, self.checkpoint, self.dtype, self.device = spec, checkpoint, dtype, device
        self._host = HugePages()

    def model(self, progress: Callable[[int, int], None]) -> ModelWeights:
        embedding = self._stacked("model.embed_tokens.weight")
        layers = []
        for layer in range(self.spec.layers):
            layers.append(self._layer(f"model.layers.{layer}", layer))
            progress(layer + 1, self.spec.layers)
        head = embedding if self.spec.tie_embeddings else self._stacked("lm_head.weight")
        return ModelWeights(embedding, layers, self._norm("model.norm"), Matrix(head, place=self._host.copy))

    def _layer(self, name: str, layer: int) -> LayerWeights:
        spec, attention = self.spec, f"{name}.self_attn"
        has_sandwich = spec.sandwich_norms
        behind_attention = f"{name}.post_attention_layernorm"
        return LayerWeights(
            attention_norm=self._norm(f"{name}.input_layernorm"),
            qkv=self._matrix(*(f"{attention}.{part}_proj" for part in "qkv"), has_bias=spec.query_bias),
            output=self._matrix(f"{attention}.o_proj", has_bias=spec.output_bias),
            mlp_norm=self._norm(f"{name}.pre_feedforward_layernorm" if has_sandwich else behind_attention),
            mlp=self._experts(f"{name}.{expert_names(spec).block}") if spec.has_experts(layer) else self._dense(name),
            query_norm=self._norm(f"{attention}.q_norm") if spec.query_key_norm else None,
            key_norm=self._norm(f"{attention}.k_norm") if spec.query_key_norm else None,
            behind_attention_norm=self._norm(behind_attention) if has_sandwich else None,
            behind_mlp_norm=self._norm(f"{name}.post_feedforward_layernorm") if has_sandwich else None,
        )

    def _dense(self, layer: str) -> DenseMlp:
        gate, up, down = (f"{layer}.mlp.{part}_proj" for part in ("gate", "up", "down"))
        has_bias = self.spec.mlp_bias
        return DenseMlp(self._matrix(gate, up, has_bias=has_bias), self._matrix(down, has_bias=has_bias))

    def _experts(self, block: str) -> ExpertMlp:
        assert self.spec.experts is not None
        names, numbers = expert_names(self.spec), range(self.spec.experts.num_experts)
        experts = [f"{block}.experts.{number}" for number in numbers]
        gate_up = [self._stacked(f"{expert}.{names.gate}.weight", f"{expert}.{names.up}.weight") for expert in experts]
        down = [self._stacked(f"{expert}.{names.down}.weight") for expert in experts]
        return ExpertMlp(self._matrix(f"{block}.gate"), torch.stack(gate_up), torch.stack(down))

    def _matrix(self, *names: str, has_bias: bool = False) -> Matrix:
        """Those projections as one."""
        bias = self._stacked(*(f"{name}.bias" for name in names)) if has_bias else None
        return Matrix(self._stacked(*(f"{name}.weight" for name in names)), bias, place=self._host.copy)

    def _stacked(self, *names: str) -> Tensor:
        """Those tensors below one another, in the model's type on its device."""
        parts = [self._finite(name, self.dtype) for name in names]
        return (torch.cat(parts) if len(parts) > 1 else parts[0]).contiguous()

    def _norm(self, name: str) -> Tensor:
        weight = self._finite(f"{name}.weight", torch.float32)
        return weight + 1 if self.spec.norms_from_one else weight

    def _finite(self, name: str, dtype: torch.dtype) -> Tensor:
        """One tensor on the device. Raises UsageError where a value is no number: no output could be right."""
        tensor = self.checkpoint.get(name).to(self.device, dtype)
        if not all(math.isfinite(bound) for bound in tensor.aminmax()):
            kind = str(dtype).removeprefix("torch.")
            raise UsageError(
                f"{self.checkpoint.where}: tensor {name!r} has values that are NaN or infinite as {kind}; the file is "
                "damaged, or --dtype is too narrow for it"
            )
        return tensor
