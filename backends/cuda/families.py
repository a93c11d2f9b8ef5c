"""A model's specification from its `config.json`: the known families and what sets each apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from backends.cuda.rope import read_ropes
from backends.cuda.spec import ExpertSpec, ModelSpec
from backends.sim.specs.hf_fields import Fields, text_fields

FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "qwen3_moe", "mixtral", "gemma2", "gemma3_text")
_GEMMAS = ("gemma2", "gemma3_text")
# Gemma's windowed layers where the file does not list them: all but every n-th.
_FULL_LAYER_EVERY = {"gemma2": 2, "gemma3_text": 6}
_LAYER_KINDS = ("full_attention", "sliding_attention")
_MOST_MATRICES = 10**6
_MOST = 1e30
_ALIASES = {"gemma3": "gemma3_text", "smollm2": "llama"}
# What transformers takes for a field that a file leaves out, where published files do, or where a wrong guess would
# not show in the shapes of tensors.
_QWEN_WINDOWS = {"sliding_window": 4096, "use_sliding_window": False}
_GEMMA = {"query_pre_attn_scalar": 256, "head_dim": 256, "tie_word_embeddings": True, "sliding_window": 4096}
_DEFAULTS: dict[str, dict[str, Any]] = {
    "llama": {"max_position_embeddings": 2048},
    "mistral": {"max_position_embeddings": 131_072, "num_key_value_heads": 8, "sliding_window": 4096},
    "mixtral": {"max_position_embeddings": 131_072, "num_key_value_heads": 8, "rms_norm_eps": 1e-5, "rope_theta": 1e6},
    "qwen2": {"max_position_embeddings": 32_768, "max_window_layers": 28, **_QWEN_WINDOWS},
    "qwen3": {"max_position_embeddings": 32_768, "max_window_layers": 28, "head_dim": 128, **_QWEN_WINDOWS},
    "qwen3_moe": {"max_position_embeddings": 32_768, "num_key_value_heads": 4, **_QWEN_WINDOWS},
    "gemma2": {
        "max_position_embeddings": 8192,
        "num_key_value_heads": 4,
        "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0,
        **_GEMMA,
    },
    "gemma3_text": {
        "max_position_embeddings": 131_072,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "vocab_size": 262_208,
        "rope_theta": 1e6,
        **_GEMMA,
    },
}


def read_spec(path: Path) -> ModelSpec:
    """The specification in the `config.json` at *path*; a multi-modal file's `text_config` is the model.

    Raises UsageError naming file and field when one is missing or absurd, or the family is not known.
    """
    return spec_of(text_fields(path))


def spec_of(config: Fields) -> ModelSpec:
    """The same from fields that are read already."""
    family = _ALIASES.get(config.model_type, config.model_type)
    _refuse_unknown(config, family)
    config = config.with_defaults(_DEFAULTS[family])
    layers, heads = config.count("num_hidden_layers", most=10_000), config.count("num_attention_heads", most=10_000)
    hidden = config.count("hidden_size", most=10**6)
    kv_heads = config.count("num_key_value_heads", default=heads, most=heads)
    head_dim = config.count("head_dim", default=max(1, hidden // heads), most=10_000)
    if heads % kv_heads:
        raise config.error("num_key_value_heads", f"{kv_heads} does not divide num_attention_heads {heads}")
    if head_dim % 2:
        raise config.error("head_dim", f"is {head_dim}; rotary embedding needs an even one")
    windows = _windows(config, family, layers)
    full, local = read_ropes(config)
    return ModelSpec(
        name=config.name,
        family=family,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate=config.count("intermediate_size", most=10**7),
        vocab=config.count("vocab_size", most=10**7),
        max_model_len=max(config.count("max_position_embeddings"), full.longest or 0),
        rms_eps=_positive(config, "rms_norm_eps", 1e-6),
        windows=windows,
        ropes=tuple(full if window is None else local for window in windows),
        scale=(_positive(config, "query_pre_attn_scalar", head_dim) if family in _GEMMAS else head_dim) ** -0.5,
        tie_embeddings=config.flag("tie_word_embeddings", False),
        experts=_experts(config, family, layers),
        dtype=str(config.get("dtype", config.get("torch_dtype", "float32"))),
        **_choices(config, family, hidden),
    )


def _refuse_unknown(config: Fields, family: str) -> None:
    if family not in FAMILIES:
        raise config.error("model_type", f"{config.model_type!r} is not known; known are {', '.join(FAMILIES)}")
    quantised = config.get("quantization_config")
    if quantised:
        method = quantised.get("quant_method", "unnamed") if isinstance(quantised, dict) else quantised
        problem = f"weights quantised by the method {method!r} are not read; give 16-bit safetensors or GGUF"
        raise config.error("quantization_config", problem)
    if config.get("auto_map"):
        raise config.error("auto_map", "the model has code of its own, which is never run; its results would be others")
    for field in ("shared_expert_intermediate_size", "n_shared_experts"):
        if config.get(field):
            raise config.error(field, "shared experts are not computed")
    if config.get("use_bidirectional_attention"):
        raise config.error("use_bidirectional_attention", "only causal attention is computed")
    wanted = "gelu_pytorch_tanh" if family in _GEMMAS else "silu"
    activation = config.get("hidden_activation") or config.get("hidden_act", wanted)
    if activation != wanted:
        raise config.error("hidden_act", f"is {activation!r}; models of the family {family} have {wanted!r}")


def _choices(config: Fields, family: str, hidden: int) -> dict[str, Any]:
    """What sets a family apart from Llama."""
    if family in _GEMMAS:
        return {
            "attention_soft_cap": _optional(config, "attn_logit_softcapping"),
            "final_soft_cap": _optional(config, "final_logit_softcapping"),
            "embedding_scale": hidden**0.5,
            "gelu": True,
            "sandwich_norms": True,
            "norms_from_one": True,
            "query_key_norm": family == "gemma3_text",
            **_biases(config),
        }
    if family == "qwen2":
        return {"query_bias": True}
    if family in ("qwen3", "qwen3_moe"):
        return {"query_key_norm": True, **_biases(config)}
    return {**_biases(config), "mlp_bias": config.flag("mlp_bias", False)}


def _biases(config: Fields) -> dict[str, bool]:
    has_bias = config.flag("attention_bias", False)
    return {"query_bias": has_bias, "output_bias": has_bias}


def _windows(config: Fields, family: str, layers: int) -> tuple[int | None, ...]:
    if family == "llama" or config.get("sliding_window") is None or not config.flag("use_sliding_window", True):
        return (None,) * layers
    window = config.count("sliding_window")
    kinds = config.get("layer_types")
    if kinds is not None:
        if not isinstance(kinds, list) or len(kinds) != layers:
            raise config.error("layer_types", f"must list one kind for each of {layers} layers")
        unknown = [kind for kind in kinds if kind not in _LAYER_KINDS]
        if unknown:
            raise config.error("layer_types", f"{unknown[0]!r} is not known; known are {', '.join(_LAYER_KINDS)}")
        return tuple(window if kind == "sliding_attention" else None for kind in kinds)
    every = config.count("sliding_window_pattern", default=_FULL_LAYER_EVERY.get(family, 0), least=0)
    if every:
        return tuple(window if (layer + 1) % every else None for layer in range(layers))
    first = config.count("max_window_layers", default=0, least=0) if family in ("qwen2", "qwen3") else 0
    return tuple(window if layer >= first else None for layer in range(layers))


def _experts(config: Fields, family: str, layers: int) -> ExpertSpec | None:
    if family == "mixtral":
        number = config.count("num_local_experts", most=_MOST_MATRICES // layers)
        per_token = config.count("num_experts_per_tok", most=number)
        return ExpertSpec(number, per_token, config.count("intermediate_size"), True, frozenset(range(layers)))
    if family != "qwen3_moe":
        return None
    # transformers 5 writes the second name.
    field = "num_experts" if config.get("num_experts") is not None else "num_local_experts"
    number, stride = config.count(field, most=_MOST_MATRICES // layers), config.count("decoder_sparse_step", default=1)
    dense = config.get("mlp_only_layers", [])
    if not isinstance(dense, list):
        raise config.error("mlp_only_layers", f"must be a list of layer numbers, got {dense!r}")
    sparse = frozenset(layer for layer in range(layers) if layer not in dense and (layer + 1) % stride == 0)
    per_token, width = config.count("num_experts_per_tok", most=number), config.count("moe_intermediate_size")
    return ExpertSpec(number, per_token, width, config.flag("norm_topk_prob", False), sparse)


def _optional(config: Fields, field: str) -> float | None:
    return None if config.get(field) is None else _positive(config, field, 0)


def _positive(config: Fields, field: str, default: float) -> float:
    value = config.get(field, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _MOST:
        raise config.error(field, f"must be a positive number, got {value!r}")
    return float(value)
