"""The operators of a decoder-only model on one of *tp* GPUs, apart from attention over the KV and recurrent states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from backends.sim.costs.operators import AllReduce, Experts, Linear, Rates, quanta
from backends.sim.specs.hardware import HardwareSpec
from backends.sim.specs.shape import ModelShape
from schedlab.pace import ns_to_quanta

# Kernels of an attention block: norm, QKV, rotary, KV write, attention and its combine over splits, output.
_ATTENTION_KERNELS = 7
# Of a recurrent block: norm, input projection, gates, convolution, state, gated norm, output.
_RECURRENT_KERNELS = 7
# Of an MLP block: norm, gate and up, activation, down.
_MLP_KERNELS = 4
# More of a MoE layer: router, top-k, sorting tokens by expert, combining the outputs.
_MOE_KERNELS = 4
# Embedding, last norm, lm_head, sampler.
_MODEL_KERNELS = 4


class Operator(Protocol):
    """Something whose time depends on the number of tokens in the step."""

    def quanta(self, tokens: int) -> int: ...


@dataclass(frozen=True, slots=True)
class Elementwise:
    """Norms, residuals, rotary embedding, KV write and activation: memory traffic only."""

    per_token: int

    def quanta(self, tokens: int) -> int:
        return tokens * self.per_token


def token_operators(rates: Rates, hardware: HardwareSpec, model: ModelShape, tp: int) -> list[Operator]:
    """Everything that is computed for each token of a step: projections, MLP or experts, all-reduces."""
    size, dense = model.dtype_bytes, model.mlp_layers - model.moe_layers
    q_size = model.heads // tp * model.head_dim
    kv_size = model.kv_heads_per_gpu(tp) * model.head_dim
    row_bytes = model.hidden * size
    operators: list[Operator] = [
        Linear.of(rates, model.hidden, (model.query_matrices - 1) * q_size + 2 * kv_size, size, model.attention_layers),
        Linear.of(rates, q_size, model.hidden, size, model.attention_layers),
        _elementwise(rates, model, tp, q_size + kv_size),
        AllReduce.of(rates, row_bytes, tp, hardware.link_latency_ns, model.blocks + 1),
    ]
    if model.recurrent:
        inner, layers = model.recurrent.inner(tp), model.recurrent.layers
        operators.append(Linear.of(rates, model.hidden, model.recurrent.projected(tp), size, layers))
        operators.append(Linear.of(rates, inner, model.hidden, size, layers))
    if dense:
        operators += _mlp(rates, model, tp, model.intermediate, dense)
    if model.moe_layers:
        operators += _moe(rates, model, tp)
    return operators


def lm_head(rates: Rates, hardware: HardwareSpec, model: ModelShape, tp: int) -> Callable[[int], int]:
    """Logits of the sampled tokens; with several GPUs each computes a slice of the vocabulary and gathers the rest."""
    vocab = -(-model.vocab // tp)
    matrix = Linear.of(rates, model.hidden, vocab, model.dtype_bytes)
    gathered = quanta(vocab * (tp - 1) * model.dtype_bytes, rates.link_bytes)
    latency = ns_to_quanta(hardware.link_latency_ns) if tp > 1 else 0
    return lambda samples: matrix.quanta(samples) + latency + samples * gathered


def kernels(model: ModelShape, tp: int) -> int:
    """Kernels that one step launches."""
    mixers = model.attention_layers * _ATTENTION_KERNELS + model.recurrent_layers * _RECURRENT_KERNELS
    mlps = model.mlp_layers * _MLP_KERNELS + model.moe_layers * _MOE_KERNELS
    return mixers + mlps + _MODEL_KERNELS + (model.blocks if tp > 1 else 0)


def _mlp(rates: Rates, model: ModelShape, tp: int, intermediate: int, layers: int) -> list[Operator]:
    width = -(-intermediate // tp)
    return [
        Linear.of(rates, model.hidden, (model.mlp_matrices - 1) * width, model.dtype_bytes, layers),
        Linear.of(rates, width, model.hidden, model.dtype_bytes, layers),
    ]


def _moe(rates: Rates, model: ModelShape, tp: int) -> list[Operator]:
    layers, size, chosen = model.moe_layers, model.dtype_bytes, model.experts_per_token
    width = -(-model.moe_intermediate // tp)
    matrices = model.mlp_matrices * model.hidden * width * layers
    traffic = chosen * (2 * model.hidden + model.mlp_matrices * width) * size * layers
    routed = Linear(
        flops_per_token=quanta(2 * matrices * chosen, rates.gemm_flops),
        bytes_per_token=quanta(traffic, rates.hbm_bytes),
        weights=quanta(matrices * model.experts * size, rates.hbm_bytes),
    )
    operators: list[Operator] = [
        Linear.of(rates, model.hidden, model.experts, size, layers),
        Experts(routed, model.experts, chosen),
    ]
    if model.shared_intermediate:
        operators += _mlp(rates, model, tp, model.shared_intermediate, layers)
    return operators


def _elementwise(rates: Rates, model: ModelShape, tp: int, rotated: int) -> Elementwise:
    """Per token: a norm with residual before each block (4 rows), rotary in and out, K and V written, activation."""
    dense, moe = model.mlp_layers - model.moe_layers, model.moe_layers
    width = dense * model.intermediate + moe * (
        model.experts_per_token * model.moe_intermediate + model.shared_intermediate
    )
    values = 4 * model.blocks * model.hidden
    values += model.attention_layers * (2 * rotated + 2 * model.kv_heads_per_gpu(tp) * model.head_dim)
    if model.gated_attention:
        values += model.attention_layers * 3 * (model.heads // tp) * model.head_dim
    if model.recurrent:
        # The convolution in and out; the gated norm reads the output and its gate and writes one row.
        values += model.recurrent.layers * (2 * model.recurrent.conv_channels(tp) + 3 * model.recurrent.inner(tp))
    values += -(-model.mlp_matrices * width // tp)
    return Elementwise(quanta(values * model.dtype_bytes, rates.hbm_bytes))
