"""The shape of a decoder-only model, a transformer or a hybrid, and the counts that follow from it."""

from __future__ import annotations

from dataclasses import dataclass

from backends.sim.specs.recurrent import RecurrentLayers
from schedlab.errors import UsageError


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Sizes under the usual names of a model configuration; lengths in tokens.

    A mixture-of-experts model has `experts` per layer in all layers but `dense_layers`; `shared_intermediate` is the
    width of an always active expert. `windowed_layers` attend to the last `window_tokens` only. A hybrid has
    `recurrent` layers among its `layers`; in some, `lone_mlp_layers` are an MLP and nothing else, and then no other
    layer has one. `gated_attention`: a gate as wide as the queries stands behind attention. Biases, rotary embeddings
    and query/key norms are too small to count.
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
    gated_attention: bool = False
    recurrent: RecurrentLayers | None = None
    lone_mlp_layers: int = 0
    published_parameters: int | None = None

    @property
    def recurrent_layers(self) -> int:
        return self.recurrent.layers if self.recurrent else 0

    @property
    def attention_layers(self) -> int:
        """Layers that keep KV."""
        return self.layers - self.recurrent_layers - self.lone_mlp_layers

    @property
    def mlp_layers(self) -> int:
        """Layers that have an MLP, dense or of experts."""
        return self.lone_mlp_layers or self.layers

    @property
    def blocks(self) -> int:
        """Residual blocks: attention, recurrence and MLPs, each with one norm before it."""
        return self.attention_layers + self.recurrent_layers + self.mlp_layers

    @property
    def moe_layers(self) -> int:
        return self.mlp_layers - self.dense_layers if self.experts else 0

    @property
    def full_layers(self) -> int:
        """Layers that attend to the whole context."""
        return self.attention_layers - self.windowed_layers

    @property
    def query_matrices(self) -> int:
        """Matrices as wide as the queries: queries, output and, where there is one, the gate."""
        return 3 if self.gated_attention else 2

    @property
    def mlp_matrices(self) -> int:
        return 3 if self.gated_mlp else 2

    @property
    def mlp_width(self) -> int:
        """The widest MLP that one token passes through: the dense one, or its experts together."""
        experts = self.experts_per_token * self.moe_intermediate + self.shared_intermediate
        return max(self.intermediate if self.mlp_layers > self.moe_layers else 0, experts)

    @property
    def parameters(self) -> int:
        return self._parameters(tp=1, experts=self.experts)

    @property
    def active_parameters(self) -> int:
        """Parameters that one token uses; all of them unless the model has experts."""
        return self._parameters(tp=1, experts=self.experts_per_token)

    def check_tp(self, tp: int) -> None:
        """Raises UsageError unless the heads can be split over *tp* GPUs."""
        if not self._splits(tp):
            recurrent = f", {self.recurrent.heads} recurrent heads" if self.recurrent else ""
            raise UsageError(
                f"--tp {tp} does not fit {self.name}: its {self.heads} attention heads{recurrent} and {self.kv_heads} "
                f"KV heads can be split over {', '.join(map(str, self.tp_degrees()))} GPUs"
            )

    def tp_degrees(self) -> list[int]:
        """Numbers of GPUs that can share the model."""
        return [tp for tp in range(1, self.heads + 1) if self._splits(tp)]

    def kv_heads_per_gpu(self, tp: int) -> int:
        """KV heads are replicated when there are more GPUs than KV heads."""
        return max(1, self.kv_heads // tp)

    def weight_bytes(self, tp: int = 1) -> int:
        """Bytes of weights on each of *tp* GPUs; replicated parts are counted in full."""
        self.check_tp(tp)
        return self._parameters(tp, self.experts) * self.dtype_bytes

    def kv_bytes_per_token(self, tp: int = 1) -> int:
        """Bytes of keys and values of one token on each of *tp* GPUs, over all layers that attend."""
        self.check_tp(tp)
        return 2 * self.kv_heads_per_gpu(tp) * self.head_dim * self.dtype_bytes * self.attention_layers

    def state_bytes(self, tp: int = 1) -> int:
        """Bytes of the recurrent state of one sequence on each of *tp* GPUs; the same at every length."""
        self.check_tp(tp)
        if self.recurrent is None:
            return 0
        return self.recurrent.matrix_bytes(tp) + self.recurrent.conv_bytes(tp, self.dtype_bytes)

    def _parameters(self, tp: int, experts: int) -> int:
        q_size = self.heads * self.head_dim // tp
        kv_size = self.kv_heads_per_gpu(tp) * self.head_dim
        attention = self.attention_layers * self.hidden * (self.query_matrices * q_size + 2 * kv_size)
        recurrent = self.recurrent.parameters(self.hidden, tp) if self.recurrent else 0
        norms = (self.blocks + 1) * self.hidden
        embeddings = self.vocab * self.hidden * (1 if self.tie_embeddings else 2)
        mlp = (self.mlp_layers - self.moe_layers) * self._mlp(self.intermediate) + self.moe_layers * self._moe(experts)
        return attention + recurrent + norms + -(-mlp // tp) + -(-embeddings // tp)

    def _mlp(self, intermediate: int) -> int:
        return self.mlp_matrices * self.hidden * intermediate

    def _moe(self, experts: int) -> int:
        routed = experts * self._mlp(self.moe_intermediate)
        return routed + self._mlp(self.shared_intermediate) + self.hidden * self.experts

    def _splits(self, tp: int) -> bool:
        if tp < 1 or self.heads % tp or (self.kv_heads % tp and tp % self.kv_heads):
            return False
        return self.recurrent is None or self.recurrent.splits(tp)
