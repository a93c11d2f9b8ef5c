"""How a GGUF file's fields and tensors are called in a Hugging Face checkpoint, and where their values differ."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from backends.cuda.rope import RopeSpec
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
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.sliding_window": "sliding_window",
    "rope.freq_base": "rope_theta",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
    "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
}
_ATTENTION = {"attn_q": "q_proj", "attn_k": "k_proj", "attn_v": "v_proj", "attn_output": "o_proj"}
_MLP = {"ffn_gate": "gate_proj", "ffn_up": "up_proj", "ffn_down": "down_proj"}
_WHOLE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
FREQUENCIES = "rope_freqs.weight"
_LLAMA3_CONTEXT = 8192


def config_of(fields: Mapping[str, Any], tensors: frozenset[str], where: str) -> dict[str, Any]:
    """The `config.json` that says the same as a GGUF file's metadata.

    Raises UsageError for an architecture that is not known.
    """
    architecture = fields.get("general.architecture")
    if architecture not in _TYPES:
        raise UsageError(f"{where}: architecture {architecture!r} is not known; known are {', '.join(_TYPES)}")
    named = {ours: fields.get(f"{architecture}.{theirs}") for theirs, ours in _FIELDS.items()}
    config = {name: value for name, value in named.items() if value is not None}
    config["model_type"] = _TYPES[architecture]
    if architecture == "llama" and config.get("num_experts"):
        config["model_type"] = "mixtral"
        config["num_local_experts"] = config.pop("num_experts")
    elif config["model_type"] == "qwen3_moe":
        config["norm_topk_prob"] = True
    config["vocab_size"] = len(fields.get("tokenizer.ggml.tokens", ())) or fields.get(f"{architecture}.vocab_size")
    config["tie_word_embeddings"] = "output.weight" not in tensors
    config["attention_bias"] = "blk.0.attn_q.bias" in tensors
    if fields.get(f"{architecture}.rope.scaling.type") == "linear":
        factor = fields.get(f"{architecture}.rope.scaling.factor")
        config["rope_scaling"] = {"rope_type": "linear", "factor": factor}
    config["_name_or_path"] = fields.get("general.name", where)
    return config


def llama3_scaling(divisors: Tensor, config: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The `rope_scaling` of Llama 3.1 that gives the divisors a GGUF file keeps instead of it.

    Raises UsageError when none does.
    """
    factor = float(divisors.max())
    theta = float(config.get("rope_theta", 500_000.0))
    rope = RopeSpec(theta, "llama3", factor, 1.0, 4.0, _LLAMA3_CONTEXT)
    head_dim = 2 * len(divisors)
    if not torch.allclose(RopeSpec(theta).frequencies(head_dim) / divisors, rope.frequencies(head_dim), rtol=1e-3):
        raise UsageError(f"{where}: {FREQUENCIES} holds other divisors than those of Llama 3.1; such are not known")
    return {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": _LLAMA3_CONTEXT,
    }


def convert(name: str, tensor: Tensor, config: Mapping[str, Any], where: str) -> dict[str, Tensor]:
    """What a tensor is in a Hugging Face checkpoint: one, or one for each expert.

    Raises UsageError for a tensor that is not known.
    """
    if name in _WHOLE:
        return {_WHOLE[name]: _norm(tensor, config) if name == "output_norm.weight" else tensor}
    match = re.fullmatch(r"blk\.(\d+)\.(\w+)\.(weight|bias)", name)
    if match is None:
        raise UsageError(f"{where}: tensor {name!r} is not known")
    layer, part, kind = f"model.layers.{match[1]}", match[2], match[3]
    if part in _ATTENTION:
        return {f"{layer}.self_attn.{_ATTENTION[part]}.{kind}": _halves(part, tensor, config)}
    if part in ("attn_q_norm", "attn_k_norm"):
        return {f"{layer}.self_attn.{part[5]}_norm.weight": _norm(tensor, config)}
    if part in _MLP:
        return {f"{layer}.mlp.{_MLP[part]}.{kind}": tensor}
    if part == "ffn_gate_inp":
        return {f"{layer}.{'block_sparse_moe' if _is_mixtral(config) else 'mlp'}.gate.weight": tensor}
    if (matrix := part.removesuffix("_exps")) in _MLP:
        return {_expert_name(config, layer, expert, matrix): one for expert, one in enumerate(tensor)}
    if part in (norms := _norms(config)):
        return {f"{layer}.{norms[part]}.weight": _norm(tensor, config)}
    raise UsageError(f"{where}: tensor {name!r} is not known")


def _norms(config: Mapping[str, Any]) -> dict[str, str]:
    if not config["model_type"].startswith("gemma"):
        return {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
    return {
        "attn_norm": "input_layernorm",
        "post_attention_norm": "post_attention_layernorm",
        "ffn_norm": "pre_feedforward_layernorm",
        "post_ffw_norm": "post_feedforward_layernorm",
    }


def _norm(tensor: Tensor, config: Mapping[str, Any]) -> Tensor:
    """Gemma's norm weights are kept as distances from 1, but for GGUF."""
    return tensor - 1 if config["model_type"].startswith("gemma") else tensor


def _halves(part: str, tensor: Tensor, config: Mapping[str, Any]) -> Tensor:
    """GGUF files of Llama models rotate neighbours; put the rows of each head in the order that rotates halves."""
    heads = {"attn_q": "num_attention_heads", "attn_k": "num_key_value_heads"}.get(part)
    if heads is None or config["model_type"] not in ("llama", "mixtral"):
        return tensor
    return tensor.unflatten(0, (config[heads], -1, 2)).transpose(1, 2).reshape(tensor.shape)


def _is_mixtral(config: Mapping[str, Any]) -> bool:
    return bool(config["model_type"] == "mixtral")


def _expert_name(config: Mapping[str, Any], layer: str, expert: int, matrix: str) -> str:
    if _is_mixtral(config):
        number = {"ffn_gate": "w1", "ffn_down": "w2", "ffn_up": "w3"}[matrix]
        return f"{layer}.block_sparse_moe.experts.{expert}.{number}.weight"
    return f"{layer}.mlp.experts.{expert}.{_MLP[matrix]}.weight"
