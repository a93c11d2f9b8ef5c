"""A GGUF file's tensors under the names, and with the values, that they have in a Hugging Face checkpoint."""

from __future__ import annotations

import re
from typing import NamedTuple

from torch import Tensor

from backends.cuda.checkpoint import expert_names
from backends.cuda.gguf_file import GgufFile
from backends.cuda.spec import ModelSpec
from schedlab.errors import UsageError

FREQUENCIES = "rope_freqs.weight"
_ATTENTION = {"attn_q": "q_proj", "attn_k": "k_proj", "attn_v": "v_proj", "attn_output": "o_proj"}
_QUERY_KEY_NORMS = {"attn_q_norm": "q_norm", "attn_k_norm": "k_norm"}
_MLP = {"ffn_gate": "gate_proj", "ffn_up": "up_proj", "ffn_down": "down_proj"}
_WHOLE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_NORMS = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
_SANDWICH_NORMS = {
    "attn_norm": "input_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}


class _Place(NamedTuple):
    """A tensor of the file, or the matrix of one expert in it."""

    name: str
    expert: int | None = None


class GgufTensors:
    """A source of tensors. One that is not known keeps the name that it has in the file."""

    def __init__(self, file: GgufFile, spec: ModelSpec) -> None:
        self.where = file.where
        self._file, self._spec = file, spec
        self._places: dict[str, _Place] = {}
        for name in file.places:
            if name != FREQUENCIES:
                self._places |= self._placed(name)
        self.names = frozenset(self._places)

    def get(self, name: str) -> Tensor:
        theirs, expert = self._places[name]
        tensor = self._file.tensor(theirs, expert)
        if self._spec.norms_from_one and theirs.endswith("norm.weight"):
            return tensor - 1
        heads = {"attn_q": self._spec.heads, "attn_k": self._spec.kv_heads}.get(theirs.split(".")[-2])
        if heads is not None and self._spec.family in ("llama", "mixtral"):
            return _halves(tensor, heads)
        return tensor

    def _placed(self, name: str) -> dict[str, _Place]:
        match = re.fullmatch(r"blk\.(\d+)\.(\w+)\.(weight|bias)", name)
        if match is None:
            return {_WHOLE.get(name, name): _Place(name)}
        layer, part, kind = f"model.layers.{match[1]}", match[2], match[3]
        if part.endswith("_exps"):
            return self._placed_experts(name, layer, part.removesuffix("_exps"))
        names = {
            **{theirs: f"self_attn.{ours}" for theirs, ours in (_ATTENTION | _QUERY_KEY_NORMS).items()},
            **{theirs: f"mlp.{ours}" for theirs, ours in _MLP.items()},
            **(_SANDWICH_NORMS if self._spec.sandwich_norms else _NORMS),
            "ffn_gate_inp": f"{expert_names(self._spec).block}.gate",
        }
        return {f"{layer}.{names[part]}.{kind}" if part in names else name: _Place(name)}

    def _placed_experts(self, name: str, layer: str, part: str) -> dict[str, _Place]:
        """One name for each expert of a tensor [experts, ...]."""
        experts, named, shape = self._spec.experts, expert_names(self._spec), self._file.places[name].shape
        matrix = {"ffn_gate": named.gate, "ffn_up": named.up, "ffn_down": named.down}.get(part)
        if experts is None or matrix is None:
            return {name: _Place(name)}
        if len(shape) != 3 or shape[0] != experts.num_experts:
            raise UsageError(
                f"{self.where}: tensor {name!r} has shape {list(shape)}, not one matrix for each of "
                f"{experts.num_experts} experts"
            )
        block = f"{layer}.{named.block}.experts"
        return {f"{block}.{number}.{matrix}.weight": _Place(name, number) for number in range(experts.num_experts)}


def _halves(tensor: Tensor, heads: int) -> Tensor:
    """Rows of each head in the order that rotates halves; GGUF files of Llama models rotate neighbours."""
    if tensor.shape[0] % (2 * heads):
        return tensor
    return tensor.unflatten(0, (heads, -1, 2)).transpose(1, 2).reshape(tensor.shape)
