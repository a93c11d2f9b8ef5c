"""The shape of a decoder-only transformer and the counts that follow from it."""

from __future__ import annotations

from dataclasses import dataclass

from schedlab.errors import UsageError


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Sizes under the usual names of a model configuration; lengths in tokens.

    A mixture-of-experts model has `experts` per layer in all layers but `dense_layers`; `shared_intermediate` is the
    width of an always active expert. `windowed_layers` attend to the last `window_tokens` only. Biases, rotary
    embeddings and query/key norms are too small to count.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    max_model_len: int
    source: str
    tie_embeddings: bool = False
    gated_mlp: bool = True
    dtype_bytes: int = 2
    experts: int = 0
    experts_per_token: int = 0
    moe_intermediate: int = 0
    shared_intermediate: int = 0
    dense_layers: int = 0
    window_tokens: int | None = None
    windowed_layers: int = 0
    published_parameters: int | None = None

    @property
    def moe_layers(self) -> int:
        return self.layers - self.dense_layers if self.experts else 0

    @property
    def full_layers(self) -> int:
        """Layers that attend to the whole context."""
        return self.layers - self.windowed_layers

    @property
    def mlp_matrices(self) -> int:
        return 3 if self.gated_mlp else 2

    @property
    def mlp_width(self) -> int:
        """The widest MLP that one token passes through: the dense one, or its experts together."""
        experts = self.experts_per_token * self.moe_intermediate + self.shared_intermediate
        return max(self.intermediate if self.layers > self.moe_layers else 0, experts)

    @property
    def parameters(self) -> int:
        return self._parameters(tp=1, experts=self.experts)

    @property
    def active_parameters(self) -> int:
        """Parameters that one token uses; all of them unless the model has experts."""
        return self._parameters(tp=1, experts=self.experts_per_token)

    def check_tp(self, tp: int) -> None:
        """Raises UsageError unless the heads can be split over *tp* GPUs."""
        if tp < 1 or self.heads % tp or (self.kv_heads % tp and tp % self.kv_heads):
            raise UsageError(
                f"--tp {tp} does not fit {self.name}: its {self.heads} attention heads and {self.kv_heads} KV heads "
                f"can be split over {', '.join(map(str, self._tp_degrees()))} GPUs"
            )

    def kv_heads_per_gpu(self, tp: int) -> int:
        """KV heads are replicated when there are more GPUs than KV heads."""
        return max(1, self.kv_heads // tp)

    def weight_bytes(self, tp: int = 1) -> int:
        """Bytes of weights on each of *tp* GPUs; replicated parts are counted in full."""
        self.check_tp(tp)
        return self._parameters(tp, self.experts) * self.dtype_bytes

    def kv_bytes_per_token(self, tp: int = 1) -> int:
        """Bytes of keys and values of one token on each of *tp* GPUs, over all layers."""
        self.check_tp(tp)
        return 2 * self.kv_heads_per_gpu(tp) * self.head_dim * self.dtype_bytes * self.layers

    def _parameters(self, tp: int, experts: int) -> int:
        q_size = self.heads * self.head_dim // tp
        kv_size = self.kv_heads_per_gpu(tp) * self.head_dim
        attention = self.hidden * (2 * q_size + 2 * kv_size)
        norms = 2 * self.hidden
        embeddings = self.vocab * self.hidden * (1 if self.tie_embeddings else 2)
        mlp = (self.layers - self.moe_layers) * self._mlp(self.intermediate) + self.moe_layers * self._moe(experts)
        return self.layers * (attention + norms) + -(-mlp // tp) + -(-embeddings // tp) + self.hidden

    def _mlp(self, intermediate: int) -> int:
        return self.mlp_matrices * self.hidden * intermediate

    def _moe(self, experts: int) -> int:
        routed = experts * self._mlp(self.moe_intermediate)
        return routed + self._mlp(self.shared_intermediate) + self.hidden * self.experts

    def _tp_degrees(self) -> list[int]:
        degrees = [tp for tp in range(1, self.heads + 1) if self.heads % tp == 0]
        return [tp for tp in degrees if self.kv_heads % tp == 0 or tp % self.kv_heads == 0]
