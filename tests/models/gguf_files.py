"""GGUF files of the tiny models, named by the gguf package's own table and laid out as llama.cpp's converter does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.torch_needed import torch  # isort: skip

import gguf
import numpy as np
from safetensors.torch import load_file

from tests.models.tiny import VOCAB

Kind = gguf.GGMLQuantizationType
_ARCHITECTURES = {
    "mistral": "llama",
    "mixtral": "llama",
    "qwen3_moe": "qwen3moe",
    "gemma3_text": "gemma3",
}
# A vocabulary of bytes, two merges and two words of control; the rest of the ids are padding.
_BYTES = [chr(byte) for byte in range(ord("!"), ord("~") + 1)]
TOKENS = ["<|begin|>", "<|im_end|>", *_BYTES, "Ġ", "he", "hel"]
TOKENS += [f"[PAD{number}]" for number in range(len(TOKENS), VOCAB)]
TYPES = [3, 3, *[1] * (len(_BYTES) + 3)]
TYPES += [5] * (VOCAB - len(TYPES))


def byte_level(**changes: Any) -> dict[str, Any]:
    """A file's fields of that vocabulary; `changes` to them."""
    named = {"model": "gpt2", "pre": "gpt-2", "tokens": TOKENS, "token_type": TYPES, "merges": ["h e", "he l"]}
    named |= {"bos_token_id": 0, "eos_token_id": 1, **changes}
    return {f"tokenizer.ggml.{name}": value for name, value in named.items()}


def write_gguf(folder: Path, path: Path, kind: Kind = Kind.F32, **changes: Any) -> Path:
    """The model of a Hugging Face folder as one file; matrices of that kind, if their rows are whole blocks.

    Args:
        changes: fields of the file, `.` for `__`; None leaves one out.
    """
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(folder)
    architecture = _ARCHITECTURES.get(config.model_type, config.model_type)
    writer = gguf.GGUFWriter(path, architecture)
    fields = {**_fields(config, architecture), **{name.replace("__", "."): value for name, value in changes.items()}}
    for name, value in fields.items():
        _add(writer, name, value)
    for name, tensor in _tensors(folder, config, architecture).items():
        stored = _stored_kind(tensor, kind)
        writer.add_tensor(name, gguf.quants.quantize(tensor, stored), raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add(writer: gguf.GGUFWriter, name: str, value: Any) -> None:
    if isinstance(value, str):
        writer.add_string(name, value)
    elif isinstance(value, bool):
        writer.add_bool(name, value)
    elif isinstance(value, int):
        writer.add_uint32(name, value)
    elif isinstance(value, float):
        writer.add_float32(name, value)
    elif value is not None:
        writer.add_array(name, value)


def _stored_kind(tensor: np.ndarray, kind: Kind) -> Kind:
    is_matrix = tensor.ndim > 1 and tensor.shape[-1] % gguf.GGML_QUANT_SIZES[kind][0] == 0
    return kind if is_matrix else Kind.F32


def _fields(config: Any, architecture: str) -> dict[str, Any]:
    ropes = config.rope_parameters
    rope = ropes.get("full_attention", ropes)
    own = {
        "block_count": config.num_hidden_layers,
        "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size,
        "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.num_attention_heads,
        "attention.head_count_kv": config.num_key_value_heads,
        "attention.key_length": config.head_dim,
        "attention.value_length": config.head_dim,
        "attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        "rope.dimension_count": config.head_dim,
        "rope.freq_base": float(rope["rope_theta"]),
        "vocab_size": config.vocab_size,
    }
    if rope["rope_type"] == "linear":
        own |= {"rope.scaling.type": "linear", "rope.scaling.factor": float(rope["factor"])}
    if architecture.startswith("gemma"):
        own["attention.sliding_window"] = config.sliding_window
    for name in ("attn_logit_softcapping", "final_logit_softcapping"):
        own[name] = getattr(config, name, None)
    if (experts := getattr(config, "num_local_experts", None)) is not None:
        own |= {"expert_count": experts, "expert_used_count": config.num_experts_per_tok}
        own["expert_feed_forward_length"] = getattr(config, "moe_intermediate_size", None)
    return {
        "general.name": "tiny",
        **{f"{architecture}.{name}": value for name, value in own.items()},
        **byte_level(),
    }


def _tensors(folder: Path, config: Any, architecture: str) -> dict[str, np.ndarray]:
    arch = next(number for number, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    table = gguf.get_tensor_name_map(arch, config.num_hidden_layers)
    tensors: dict[str, np.ndarray] = {}
    for name, tensor in _with_merged_experts(load_file(folder / "model.safetensors")).items():
        theirs = table.get_name(name, try_suffixes=(".weight", ".bias"))
        assert theirs is not None, name
        heads = {"q": config.num_attention_heads, "k": config.num_key_value_heads}
        match = re.search(r"self_attn\.([qk])_proj", name)
        if match and architecture == "llama":
            tensor = _neighbours(tensor, heads[match[1]])
        if name.endswith("norm.weight") and architecture.startswith("gemma"):
            tensor = tensor + 1
        tensors[theirs] = tensor.float().numpy()
    if config.rope_parameters.get("rope_type") == "llama3":
        tensors["rope_freqs.weight"] = _llama3_divisors(config)
    return tensors


def _with_merged_experts(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Matrices of experts on top of one another, under the names that the table knows."""
    merged: dict[str, list[torch.Tensor]] = {}
    rest = {}
    for name in sorted(tensors, key=lambda name: [int(part) if part.isdigit() else 0 for part in name.split(".")]):
        if (match := re.fullmatch(r"(.*\.experts)\.\d+\.(.*)", name)) is not None:
            merged.setdefault(f"{match[1]}.{match[2]}", []).append(tensors[name])
        else:
            rest[name] = tensors[name]
    return rest | {name: torch.stack(parts) for name, parts in merged.items()}


def _neighbours(tensor: torch.Tensor, heads: int) -> torch.Tensor:
    """Rows of each head so that those which rotate together are neighbours."""
    halves = tensor.reshape(heads, 2, -1, *tensor.shape[1:])
    return halves.swapaxes(1, 2).reshape(tensor.shape)


def _llama3_divisors(config: Any) -> np.ndarray:
    """By what the frequencies are divided, as Llama 3.1 was published."""
    rope, divisors = config.rope_parameters, []
    for at in range(0, config.head_dim, 2):
        length = 2 * np.pi * rope["rope_theta"] ** (at / config.head_dim)
        turns = rope["original_max_position_embeddings"] / length
        kept = (turns - rope["low_freq_factor"]) / (rope["high_freq_factor"] - rope["low_freq_factor"])
        kept = min(max(kept, 0.0), 1.0)
        divisors.append(1 / ((1 - kept) / rope["factor"] + kept))
    return np.array(divisors, np.float32)
