"""What a decoder-only transformer computes: sizes and the choices in which the families differ."""

from __future__ import annotations

from dataclasses import dataclass

from backends.cuda.rope import RopeSpec


@dataclass(frozen=True, slots=True)
class ExpertSpec:
    """Mixture of experts in the layers `layers`."""

    num_experts: int
    experts_per_token: int
    width: int
    renormalise: bool
    layers: frozenset[int]


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One model. Lengths in tokens.

    Attributes:
        windows: of each layer, how many tokens a query sees; None = all.
        ropes: of each layer.
        scale: factor of the attention scores.
        attention_soft_cap, final_soft_cap: c of c * tanh(s / c); None = no cap.
        embedding_scale: factor of the embeddings.
        gelu: the MLP's gate is GeLU (tanh) instead of SiLU.
        sandwich_norms: there is a norm behind attention and MLP too, before each residual addition.
        norms_from_one: stored norm weights are distances from 1.
        query_key_norm: each head of queries and keys is normalised before the rotation.
        query_bias, output_bias, mlp_bias: projections that add a bias (queries, keys and values together).
        dtype: the type that the checkpoint names, for `--dtype auto`.
    """

    name: str
    family: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    max_model_len: int
    rms_eps: float
    windows: tuple[int | None, ...]
    ropes: tuple[RopeSpec, ...]
    scale: float
    tie_embeddings: bool = False
    attention_soft_cap: float | None = None
    final_soft_cap: float | None = None
    embedding_scale: float = 1.0
    gelu: bool = False
    sandwich_norms: bool = False
    norms_from_one: bool = False
    query_key_norm: bool = False
    query_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    experts: ExpertSpec | None = None
    dtype: str = "float32"

    @property
    def query_width(self) -> int:
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        return self.kv_heads * self.head_dim

    def has_experts(self, layer: int) -> bool:
        return self.experts is not None and layer in self.experts.layers

    def kv_bytes_per_token(self, dtype_bytes: int) -> int:
        """Keys and values of one token in all layers."""
        return 2 * self.layers * self.kv_width * dtype_bytes
