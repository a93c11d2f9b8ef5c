"""A model's shape from a Hugging Face `config.json`: plain decoders here, hybrids with `hf_hybrids`."""

from __future__ import annotations

from pathlib import Path

from backends.sim.specs.hf_fields import Fields, text_fields
from backends.sim.specs.hf_hybrids import HYBRIDS
from backends.sim.specs.shape import ModelShape

# Architectures whose state is not keys and values per token and head, by the field that betrays them.
_NOT_PLAIN_KV = {
    "kv_lora_rank": "multi-head latent attention",
    "ssm_cfg": "a state-space model",
    "state_size": "a state-space model",
    "mamba_d_state": "a state-space hybrid",
    "mamba_d_ssm": "a state-space hybrid",
    "ssm_state_size": "a state-space hybrid",
    "linear_num_value_heads": "linear attention layers",
    "lru_width": "a recurrent hybrid",
    "attn_layer_period": "a state-space hybrid",
    "attention_chunk_size": "chunked attention",
}
_NOT_PLAIN_TYPES = ("mamba", "mamba2", "rwkv", "falcon_mamba", "recurrent_gemma", "jamba", "bamba", "lfm2", "minimax")
_UNGATED_MLP_TYPES = ("phi", "starcoder2", "gpt_neox", "opt", "nemotron", "nemotron_h", "persimmon", "stablelm_epoch")
# transformers ties these models' embeddings unless the file says otherwise.
_TIED_TYPES = ("gemma", "gemma2", "gemma3", "gemma3_text")
# Every n-th layer of these attends to the whole context unless the file says otherwise.
_FULL_LAYER_EVERY = {"gemma2": 2, "gemma3": 6, "gemma3_text": 6}


def read_config(path: Path) -> ModelShape:
    """The shape in the `config.json` at *path*; a multi-modal file's `text_config` is the model.

    Raises UsageError naming the file and the field when one is missing or absurd, or when the architecture keeps other
    state than plain KV and is none of the known hybrids.
    """
    config = text_fields(path)
    _refuse_other_state(config)
    layers, heads = config.count("num_hidden_layers", most=10_000), config.count("num_attention_heads", most=10_000)
    hidden = config.count("hidden_size", most=10**6)
    kv_heads = config.count("num_key_value_heads", default=heads, most=heads)
    if heads % kv_heads:
        raise config.error("num_key_value_heads", f"{kv_heads} does not divide num_attention_heads {heads}")
    window_tokens, windowed_layers = _window(config, layers)
    hybrid = HYBRIDS.get(config.model_type)
    plain = {
        "layers": layers,
        "hidden": hidden,
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": config.count("head_dim", default=max(1, hidden // heads), most=10_000),
        "intermediate": config.count("intermediate_size", most=10**7),
        "vocab": config.count("vocab_size", most=10**7),
        "max_model_len": config.count("max_position_embeddings"),
        "tie_embeddings": bool(config.get("tie_word_embeddings", config.model_type in _TIED_TYPES)),
        "gated_mlp": config.model_type not in _UNGATED_MLP_TYPES,
        "window_tokens": window_tokens,
        "windowed_layers": windowed_layers,
        **_experts(config, layers),
    }
    of_hybrid = hybrid.fields(config, layers) if hybrid else {}
    shape = ModelShape(name=config.name, source=f"config.json of {config.name}", **{**plain, **of_hybrid})
    if shape.attention_layers < 1:
        raise config.error("num_hidden_layers", "none of the layers attends; a hybrid has some that do")
    return shape


def _refuse_other_state(config: Fields) -> None:
    if config.model_type in _NOT_PLAIN_TYPES:
        raise config.error("model_type", f"{config.model_type!r} keeps other state than plain KV; not modelled")
    known = HYBRIDS[config.model_type].states if config.model_type in HYBRIDS else ()
    for field, what in _NOT_PLAIN_KV.items():
        if config.get(field) and field not in known:
            raise config.error(field, f"the model has {what}, whose KV is not plain; not modelled")
    if config.get("is_encoder_decoder"):
        raise config.error("is_encoder_decoder", "only decoder-only models are modelled")
    if config.get("quantization_config"):
        raise config.error("quantization_config", "quantised weights are not modelled; give the 16-bit model's config")


def _window(config: Fields, layers: int) -> tuple[int | None, int]:
    """The attention window and the number of layers that have it."""
    used = config.get("use_sliding_window", not config.model_type.startswith("qwen"))
    if config.get("sliding_window") is None or not used:
        return None, 0
    window_tokens = config.count("sliding_window")
    windowed_layers = _windowed_layers(config, layers)
    return (window_tokens, windowed_layers) if windowed_layers else (None, 0)


def _windowed_layers(config: Fields, layers: int) -> int:
    kinds = config.get("layer_types")
    if kinds is not None:
        if not isinstance(kinds, list) or len(kinds) != layers:
            raise config.error("layer_types", f"must list one kind for each of {layers} layers")
        return kinds.count("sliding_attention")
    pattern = config.count("sliding_window_pattern", default=_FULL_LAYER_EVERY.get(config.model_type, 0), least=0)
    if pattern:
        return layers - layers // pattern
    if config.get("max_window_layers") is not None:
        return max(0, layers - config.count("max_window_layers", least=0))
    return layers


def _experts(config: Fields, layers: int) -> dict[str, int]:
    """The mixture-of-experts fields; empty for a dense model."""
    field = next((name for name in ("num_local_experts", "num_experts", "n_routed_experts") if config.get(name)), None)
    if field is None:
        return {}
    experts = config.count(field, most=10**5)
    stride = config.count("decoder_sparse_step", default=1)
    dense = config.get("mlp_only_layers", [])
    if not isinstance(dense, list):
        raise config.error("mlp_only_layers", f"must be a list of layer numbers, got {dense!r}")
    first = config.count("first_k_dense_replace", default=0, least=0)
    sparse = [layer for layer in range(first, layers) if layer not in dense and (layer + 1) % stride == 0]
    dense_width = config.count("intermediate_size", most=10**7)
    width = config.count("moe_intermediate_size", default=dense_width, most=10**7)
    shared = config.count("n_shared_experts", default=0, least=0, most=1000) * width
    return {
        "experts": experts,
        "experts_per_token": config.count("num_experts_per_tok", most=experts),
        "moe_intermediate": width,
        "shared_intermediate": config.count("shared_expert_intermediate_size", default=shared, least=0, most=10**7),
        "dense_layers": layers - len(sparse),
    }
