"""Recurrent layers of a hybrid model: what they weigh, and the state that a sequence keeps in them instead of KV."""

from __future__ import annotations

from dataclasses import dataclass

from schedlab.errors import UsageError

MAMBA2, GATED_DELTA = "mamba2", "gated_delta"
# Scalars that each head draws from a token: the time step of Mamba-2; decay and write strength of the delta rule.
_GATES = {MAMBA2: 1, GATED_DELTA: 2}


@dataclass(frozen=True, slots=True)
class RecurrentLayers:
    """All recurrent layers of a model, under the names of Mamba-2 (Dao and Gu 2024); lengths in tokens.

    Each of `heads` heads keeps a matrix of `head_dim` x `state_dim` per sequence; `groups` of heads share what writes
    and reads it (B and C; keys and queries in Gated DeltaNet, Yang et al. 2024, where head_dim is that of the values).
    A convolution over `conv_kernel` tokens stands before it and keeps the last conv_kernel - 1 inputs. Prefill scans
    `chunk_tokens` at a time. `state_dtype_bytes`: the matrices are in float32 unless a model's file says otherwise; the
    convolution's inputs are in the model's own type.
    """

    kind: str
    layers: int
    heads: int
    head_dim: int
    state_dim: int
    groups: int
    conv_kernel: int
    chunk_tokens: int
    state_dtype_bytes: int = 4

    def __post_init__(self) -> None:
        if self.kind not in _GATES:
            raise UsageError(f"recurrent layers of kind {self.kind!r} are unknown; known: {', '.join(_GATES)}")
        if self.heads % self.groups:
            raise UsageError(f"{self.groups} groups do not divide {self.heads} recurrent heads")

    def splits(self, tp: int) -> bool:
        """Whether *tp* GPUs can share the heads; groups are replicated when there are more GPUs than groups."""
        return self.heads % tp == 0 and (self.groups % tp == 0 or tp % self.groups == 0)

    def inner(self, tp: int) -> int:
        """Channels of a layer's output on each GPU."""
        return self.heads // tp * self.head_dim

    def conv_channels(self, tp: int) -> int:
        """What passes through the convolution: the head's inputs, and what writes and reads the state."""
        return self.inner(tp) + 2 * max(1, self.groups // tp) * self.state_dim

    def projected(self, tp: int) -> int:
        """Outputs of a layer's input projection: what is convolved, the output gate and the heads' scalars."""
        return self.inner(tp) + self.conv_channels(tp) + _GATES[self.kind] * self.heads // tp

    def parameters(self, hidden: int, tp: int) -> int:
        """Weights of all layers on each GPU; biases and per-head scalars are too small to count."""
        matrices = hidden * (self.projected(tp) + self.inner(tp))
        return self.layers * (matrices + self.conv_channels(tp) * self.conv_kernel)

    def matrix_bytes(self, tp: int) -> int:
        """Bytes of one sequence's state matrices on each GPU, over all layers."""
        return self.layers * self.inner(tp) * self.state_dim * self.state_dtype_bytes

    def conv_bytes(self, tp: int, dtype_bytes: int) -> int:
        """Bytes of one sequence's last inputs of the convolutions on each GPU, over all layers."""
        return self.layers * self.conv_channels(tp) * (self.conv_kernel - 1) * dtype_bytes

    def scan_flops_per_token(self, tp: int) -> int:
        """Arithmetic of a prefill token in the chunked scan on each GPU, over all layers.

        Counted from the block form of the papers: products inside a chunk of L tokens (2 L per element of the token's
        key, query or value), and reading and writing the chunk's state (2 N P each). The delta rule has three products
        of L keys, two of L values, and reads the state once more.
        """
        heads, groups = self.heads // tp, max(1, self.groups // tp)
        chunk, width, state = self.chunk_tokens, self.head_dim, self.state_dim
        if self.kind == MAMBA2:
            flops = groups * 2 * chunk * state + heads * (2 * chunk * width + 4 * state * width)
        else:
            flops = heads * (2 * chunk * (3 * state + 2 * width) + 6 * state * width)
        return self.layers * flops

    def activation_width(self, tp: int) -> int:
        """Values per token alive in a layer on each GPU: projected, convolved, output and its normed copy."""
        return self.projected(tp) + self.conv_channels(tp) + 2 * self.inner(tp)

    def scan_bytes(self, tokens: int, tp: int) -> int:
        """Bytes of the states between the chunks of a step's prefill, in one layer; alive while it is computed."""
        chunks = -(-tokens // self.chunk_tokens)
        return chunks * self.inner(tp) * self.state_dim * self.state_dtype_bytes
