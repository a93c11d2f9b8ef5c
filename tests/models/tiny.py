"""Tiny random models of every family, made by transformers, which is the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.torch_needed import _REASON, pytest, torch

transformers = pytest.importorskip("transformers", reason=_REASON)

VOCAB = 199
_SIZES: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 1,
}
_LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
_YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 8.0, "original_max_position_embeddings": 64}
_WINDOWED = ["sliding_attention", "full_attention", "sliding_attention"]
# By the name of a case: transformers' config class and what it changes.
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama2": ("LlamaConfig", {"num_key_value_heads": 6}),
    "llama3": ("LlamaConfig", {"rope_parameters": _LLAMA3}),
    "llama-biases": ("LlamaConfig", {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}),
    "smollm2": ("LlamaConfig", {"num_attention_heads": 3, "num_key_value_heads": 1, "tie_word_embeddings": True}),
    "linear-rope": ("LlamaConfig", {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0}}),
    "yarn-rope": ("Qwen3Config", {"rope_parameters": _YARN}),
    "dynamic-rope": ("LlamaConfig", {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}}),
    "mistral": ("MistralConfig", {"sliding_window": None}),
    "mistral-windows": ("MistralConfig", {"sliding_window": 11}),
    "qwen2": ("Qwen2Config", {"tie_word_embeddings": True}),
    "qwen2-windows": ("Qwen2Config", {"use_sliding_window": True, "sliding_window": 9, "max_window_layers": 1}),
    "qwen3": ("Qwen3Config", {}),
    "qwen3-moe": (
        "Qwen3MoeConfig",
        {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "mlp_only_layers": [1]},
    ),
    "mixtral": ("MixtralConfig", {"num_local_experts": 4, "num_experts_per_tok": 2}),
    "gemma2": (
        "Gemma2Config",
        {"sliding_window": 10, "query_pre_attn_scalar": 24, "attn_logit_softcapping": 5.0, "tie_word_embeddings": True},
    ),
    "gemma3": (
        "Gemma3TextConfig",
        {"sliding_window": 10, "layer_types": _WINDOWED, "query_pre_attn_scalar": 24, "tie_word_embeddings": True},
    ),
}


def reference(case: str, **changes: Any) -> Any:
    """The model of that case in float32, with weights large enough that every part shows in the logits."""
    class_name, own = CASES[case]
    config = getattr(transformers, class_name)(**{**_SIZES, **own, **changes})
    config._attn_implementation = "eager"
    torch.manual_seed(len(case))
    model = transformers.AutoModelForCausalLM.from_config(config).float().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() < 2:
                parameter.add_(torch.randn_like(parameter) * 0.2)
            else:
                parameter.normal_(0, 1.5 if "embed" in name else parameter.shape[-1] ** -0.5)
    return model


def saved(case: str, folder: Path, **changes: Any) -> Path:
    """The same as a Hugging Face folder."""
    reference(case, **changes).save_pretrained(folder)
    return folder


@torch.no_grad()
def reference_logits(model: Any, tokens: list[int]) -> torch.Tensor:
    """Logits behind every token, [tokens, vocab]."""
    return model(torch.tensor([tokens])).logits[0].float()
