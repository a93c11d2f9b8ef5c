"""The recurrent layers of the hybrid architectures that are modelled, from their `config.json`.

Field names and defaults as in the configuration classes of Hugging Face transformers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from backends.sim.specs.hf_fields import Fields
from backends.sim.specs.recurrent import GATED_DELTA, MAMBA2, RecurrentLayers

_STATE_TYPES = {"float32": 4, "bfloat16": 2, "float16": 2}
# Tokens that the public kernels of Gated DeltaNet scan at a time; the files do not say.
_DELTA_CHUNK_TOKENS = 64


@dataclass(frozen=True, slots=True)
class Hybrid:
    """How one architecture is read.

    Attributes:
        states: the fields that describe its recurrent layers, known here and refused elsewhere.
        fields: what it gives to the `ModelShape` beyond a plain decoder's fields.
    """

    states: tuple[str, ...]
    fields: Callable[[Fields, int], dict[str, Any]]


def _qwen3_next(config: Fields, layers: int) -> dict[str, Any]:
    every = config.count("full_attention_interval", default=4)
    kinds = _kinds(config, layers)
    recurrent_layers = layers - layers // every if kinds is None else kinds.count("linear_attention")
    recurrent = _layers(
        config,
        kind=GATED_DELTA,
        layers=recurrent_layers,
        heads=config.count("linear_num_value_heads", most=10_000),
        head_dim=config.count("linear_value_head_dim", most=10_000),
        state_dim=config.count("linear_key_head_dim", most=10_000),
        groups=("linear_num_key_heads", None),
        conv_kernel=config.count("linear_conv_kernel_dim", most=100),
        chunk_tokens=_DELTA_CHUNK_TOKENS,
    )
    return {"gated_attention": True, "recurrent": recurrent}


def _nemotron_h(config: Fields, layers: int) -> dict[str, Any]:
    pattern = config.get("hybrid_override_pattern")
    if not isinstance(pattern, str) or len(pattern) != layers or set(pattern) - set("M*-"):
        raise config.error(
            "hybrid_override_pattern",
            f"must be {layers} letters, M for Mamba-2, * for attention and - for an MLP, got {pattern!r}",
        )
    recurrent = _layers(
        config,
        kind=MAMBA2,
        layers=pattern.count("M"),
        heads=config.count("mamba_num_heads", most=10_000),
        head_dim=config.count("mamba_head_dim", most=10_000),
        state_dim=config.count("ssm_state_size", most=10_000),
        groups=("n_groups", 8),
        conv_kernel=config.count("conv_kernel", default=4, most=100),
        chunk_tokens=config.count("chunk_size", default=128, most=10**5),
    )
    shape = {"recurrent": recurrent, "lone_mlp_layers": pattern.count("-")}
    if config.get("head_dim") is None and config.get("attention_head_dim") is not None:
        shape["head_dim"] = config.count("attention_head_dim", most=10_000)
    return shape


def _granite(config: Fields, layers: int) -> dict[str, Any]:
    kinds = _kinds(config, layers)
    heads = config.count("mamba_n_heads", default=128, most=10_000)
    inner = config.count("mamba_expand", default=2, most=100) * config.count("hidden_size", most=10**6)
    head_dim = config.get("mamba_d_head")
    recurrent = _layers(
        config,
        kind=MAMBA2,
        layers=layers if kinds is None else kinds.count("mamba"),
        heads=heads,
        head_dim=inner // heads if head_dim in (None, "auto") else config.count("mamba_d_head", most=10_000),
        state_dim=config.count("mamba_d_state", default=256, most=10_000),
        groups=("mamba_n_groups", 1),
        conv_kernel=config.count("mamba_d_conv", default=4, most=100),
        chunk_tokens=config.count("mamba_chunk_size", default=256, most=10**5),
    )
    shared = config.count("shared_intermediate_size", default=1024, least=0, most=10**7)
    if config.get("num_local_experts"):
        return {"recurrent": recurrent, "shared_intermediate": shared}
    return {"recurrent": recurrent, "intermediate": shared}


def _kinds(config: Fields, layers: int) -> list[Any] | None:
    kinds = config.get("layer_types")
    if kinds is not None and (not isinstance(kinds, list) or len(kinds) != layers):
        raise config.error("layer_types", f"must list one kind for each of {layers} layers")
    return kinds


def _layers(
    config: Fields, *, layers: int, heads: int, groups: tuple[str, int | None], **sizes: Any
) -> RecurrentLayers | None:
    """Groups are a field and its default, so that a number which does not divide the heads is refused by its name."""
    if not layers:
        return None
    count = config.count(groups[0], default=groups[1], most=heads)
    if heads % count:
        raise config.error(groups[0], f"{count} does not divide the {heads} recurrent heads")
    kept = config.get("mamba_ssm_cache_dtype", "float32")
    if kept not in _STATE_TYPES:
        raise config.error("mamba_ssm_cache_dtype", f"must be one of {', '.join(_STATE_TYPES)}, got {kept!r}")
    return RecurrentLayers(layers=layers, heads=heads, groups=count, state_dtype_bytes=_STATE_TYPES[kept], **sizes)


HYBRIDS = {
    "qwen3_next": Hybrid(("linear_num_value_heads",), _qwen3_next),
    "nemotron_h": Hybrid(("ssm_state_size",), _nemotron_h),
    "granitemoehybrid": Hybrid(("mamba_d_state",), _granite),
}
