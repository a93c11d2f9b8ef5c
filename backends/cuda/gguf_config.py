"""The `config.json` that says the same as a GGUF file's metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from backends.cuda.rope import Llama3, RopeSpec
from schedlab.errors import UsageError

# GGUF's architecture and the model type that computes the same; `llama` covers Mistral and, with experts, Mixtral.
_TYPES = {
    "llama": "llama",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "qwen3moe": "qwen3_moe",
    "gemma2": "gemma2",
    "gemma3": "gemma3_text",
}
_FIELDS = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.sliding_window": "sliding_window",
    "rope.freq_base": "rope_theta",
    "rope.freq_base_swa": "rope_local_base_freq",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
    "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
}
# Layers of the Gemma models with 27 billion parameters: their files do not say that scores are scaled by the width of
# the residual stream per head; in the smaller models that is the head's own width.
_GEMMAS_27B = {"gemma2": 46, "gemma3": 62}
_LLAMA3_CONTEXT = 8192


def config_of(fields: Mapping[str, Any], tensors: frozenset[str], where: str) -> dict[str, Any]:
    """That file's fields; they are not checked against one another.

    Args:
        tensors: names of the file's tensors.

    Raises UsageError for an architecture that is not known, or a choice of one that is not.
    """
    architecture = fields.get("general.architecture")
    if architecture not in _TYPES:
        raise UsageError(f"{where}: architecture {architecture!r} is not known; known are {', '.join(_TYPES)}")
    own = {name.removeprefix(f"{architecture}."): value for name, value in fields.items()}
    tokens = own.get("tokenizer.ggml.tokens")
    _refuse_unknown(own, where)
    config = {ours: own[theirs] for theirs, ours in _FIELDS.items() if theirs in own}
    config |= {
        "model_type": _TYPES[architecture],
        "_name_or_path": str(own.get("general.name", where)),
        "vocab_size": len(tokens) if isinstance(tokens, list) else own.get("vocab_size"),
        "tie_word_embeddings": "output.weight" not in tensors,
        "attention_bias": "blk.0.attn_q.bias" in tensors,
        "mlp_bias": "blk.0.ffn_gate.bias" in tensors,
        **_head_dim(own, where),
        **_pattern(own),
        **_rope(own, where),
    }
    per_head = _hidden_per_head(own)
    config.setdefault("head_dim", per_head)
    config.setdefault("num_key_value_heads", own.get("attention.head_count"))
    if architecture in _GEMMAS_27B:
        is_27b = own.get("block_count") == _GEMMAS_27B[architecture]
        config["query_pre_attn_scalar"] = per_head if is_27b else config["head_dim"]
    if architecture == "llama" and config.get("num_experts"):
        config |= {"model_type": "mixtral", "num_local_experts": config.pop("num_experts")}
    if architecture == "qwen3moe":
        config["norm_topk_prob"] = True
    return {name: value for name, value in config.items() if value is not None}


def llama3_scaling(divisors: Tensor, config: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The `rope_scaling` of Llama 3.1 that gives the divisors a GGUF file keeps instead of it.

    Args:
        config: checked.

    Raises UsageError when none does.
    """
    divisors = divisors.float()
    factor, theta, head_dim = float(divisors.max()), float(config.get("rope_theta", 10_000.0)), config["head_dim"]
    rope = RopeSpec(theta, Llama3(factor, 1.0, 4.0, _LLAMA3_CONTEXT))
    plain, scaled = RopeSpec(theta).frequencies(head_dim), rope.frequencies(head_dim)
    if divisors.shape != plain.shape or not torch.allclose(plain / divisors, scaled, rtol=1e-3, atol=0):
        raise UsageError(f"{where}: rope_freqs.weight holds other divisors than those of Llama 3.1; such are not known")
    return {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": _LLAMA3_CONTEXT,
    }


def _refuse_unknown(own: Mapping[str, Any], where: str) -> None:
    if own.get("split.count", 1) not in (0, 1):
        raise UsageError(f"{where}: is one of {own['split.count']} parts of a model; merge them into one file")
    if own.get("expert_shared_count") or own.get("expert_shared_feed_forward_length"):
        raise UsageError(f"{where}: the model has shared experts, which are not computed")


def _hidden_per_head(own: Mapping[str, Any]) -> int | None:
    hidden, heads = own.get("embedding_length"), own.get("attention.head_count")
    return hidden // heads if isinstance(hidden, int) and isinstance(heads, int) and heads > 0 else None


def _head_dim(own: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Width of a head where the file says it; queries, keys and values are equally wide here and rotated whole."""
    widths = {
        name: own[name]
        for name in ("attention.key_length", "attention.value_length", "rope.dimension_count")
        if name in own
    }
    if len(set(map(repr, widths.values()))) > 1:
        raise UsageError(f"{where}: {widths}: heads of several widths, or rotated in part, are not computed")
    return {"head_dim": next(iter(widths.values()))} if widths else {}


def _pattern(own: Mapping[str, Any]) -> dict[str, Any]:
    """Which layers have a window: all but every n-th, or a truth value for each layer."""
    pattern = own.get("attention.sliding_window_pattern")
    if isinstance(pattern, list):
        return {"layer_types": ["sliding_attention" if is_windowed else "full_attention" for is_windowed in pattern]}
    return {"sliding_window_pattern": pattern}


def _rope(own: Mapping[str, Any], where: str) -> dict[str, Any]:
    kind = own.get("rope.scaling.type", "none")
    if kind not in ("none", "linear"):
        raise UsageError(f"{where}: field 'rope.scaling.type' is {kind!r}; none, linear and Llama 3.1's are known")
    if kind == "none":
        return {}
    return {"rope_scaling": {"rope_type": "linear", "factor": own.get("rope.scaling.factor")}}
