"""The tensors that a specification wants, by name and shape, and a checkpoint that is held against it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from torch import Tensor

from backends.cuda.spec import ModelSpec
from backends.cuda.tensors import TensorSource
from schedlab.errors import UsageError

_EMBEDDING = "embed_tokens.weight"
# Parts of a multi-modal checkpoint that a text model does not read, and tables that older files store.
_IGNORED = re.compile(r"(^|\.)(vision_tower|vision_model|multi_modal_projector)\.|rotary_emb\.inv_freq$")
_MOST_NAMED = 5


class ExpertNames(NamedTuple):
    """What a family calls its block of experts and their matrices."""

    block: str
    gate: str
    up: str
    down: str


def expert_names(spec: ModelSpec) -> ExpertNames:
    if spec.family == "mixtral":
        return ExpertNames("block_sparse_moe", "w1", "w3", "w2")
    return ExpertNames("mlp", "gate_proj", "up_proj", "down_proj")


def wanted_shapes(spec: ModelSpec) -> dict[str, tuple[int, ...]]:
    """Every tensor of a checkpoint of this model."""
    shapes: dict[str, tuple[int, ...]] = {
        f"model.{_EMBEDDING}": (spec.vocab, spec.hidden),
        "model.norm.weight": (spec.hidden,),
    }
    if not spec.tie_embeddings:
        shapes["lm_head.weight"] = (spec.vocab, spec.hidden)
    for layer in range(spec.layers):
        name = f"model.layers.{layer}"
        shapes |= {f"{name}.{part}": shape for part, shape in _attention_shapes(spec).items()}
        shapes |= {f"{name}.{part}": shape for part, shape in _mlp_shapes(spec, layer).items()}
    return shapes


class Checkpoint:
    """A source of tensors that has all that the specification wants and nothing that it does not know.

    Attributes:
        where: what a message calls it.

    Raises UsageError, naming source and tensors, when it lacks some or has unknown ones.
    """

    def __init__(self, spec: ModelSpec, source: TensorSource) -> None:
        self.where = source.where
        self._source = source
        self._shapes = wanted_shapes(spec)
        self._stored = _stored_names(source)
        missing = [name for name in self._shapes if name not in self._stored]
        if missing:
            raise UsageError(f"{source.where}: lacks {_listed(missing)} of the {spec.family} model {spec.name}")
        unknown = [name for name in self._stored if name not in self._shapes and name != "lm_head.weight"]
        if unknown:
            raise UsageError(
                f"{source.where}: has {_listed(unknown)}, which the {spec.family} model that its config describes "
                "does not use"
            )

    def get(self, name: str) -> Tensor:
        """The tensor of that name. Raises UsageError if it has another shape than the configuration says."""
        tensor = self._source.get(self._stored[name])
        if tensor.shape != self._shapes[name]:
            raise UsageError(
                f"{self.where}: tensor {name!r} has shape {list(tensor.shape)}; by the configuration it has "
                f"{list(self._shapes[name])}"
            )
        return tensor


def _attention_shapes(spec: ModelSpec) -> dict[str, tuple[int, ...]]:
    widths = {"q": spec.query_width, "k": spec.kv_width, "v": spec.kv_width}
    shapes: dict[str, tuple[int, ...]] = {
        f"self_attn.{part}_proj.weight": (w, spec.hidden) for part, w in widths.items()
    }
    shapes["self_attn.o_proj.weight"] = (spec.hidden, spec.query_width)
    if spec.query_bias:
        shapes |= {f"self_attn.{part}_proj.bias": (width,) for part, width in widths.items()}
    if spec.output_bias:
        shapes["self_attn.o_proj.bias"] = (spec.hidden,)
    if spec.query_key_norm:
        shapes |= {f"self_attn.{part}_norm.weight": (spec.head_dim,) for part in "qk"}
    norms = ["input_layernorm", "post_attention_layernorm"]
    if spec.sandwich_norms:
        norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
    return shapes | {f"{norm}.weight": (spec.hidden,) for norm in norms}


def _mlp_shapes(spec: ModelSpec, layer: int) -> dict[str, tuple[int, ...]]:
    if spec.has_experts(layer):
        return _expert_shapes(spec)
    width = spec.intermediate
    shapes: dict[str, tuple[int, ...]] = {}
    for part, shape in (("gate", (width, spec.hidden)), ("up", (width, spec.hidden)), ("down", (spec.hidden, width))):
        shapes[f"mlp.{part}_proj.weight"] = shape
        if spec.mlp_bias:
            shapes[f"mlp.{part}_proj.bias"] = shape[:1]
    return shapes


def _expert_shapes(spec: ModelSpec) -> dict[str, tuple[int, ...]]:
    assert spec.experts is not None
    names, width = expert_names(spec), spec.experts.width
    shapes: dict[str, tuple[int, ...]] = {f"{names.block}.gate.weight": (spec.experts.num_experts, spec.hidden)}
    for number in range(spec.experts.num_experts):
        expert = f"{names.block}.experts.{number}"
        shapes[f"{expert}.{names.gate}.weight"] = shapes[f"{expert}.{names.up}.weight"] = (width, spec.hidden)
        shapes[f"{expert}.{names.down}.weight"] = (spec.hidden, width)
    return shapes


def _stored_names(source: TensorSource) -> dict[str, str]:
    """The names that the source uses, by our own: multi-modal files nest the text model."""
    prefix = next((name.removesuffix(_EMBEDDING) for name in source.names if name.endswith(f".{_EMBEDDING}")), "model.")
    names = {}
    for stored in sorted(source.names):
        if _IGNORED.search(stored):
            continue
        if stored.startswith(prefix):
            names[f"model.{stored.removeprefix(prefix)}"] = stored
        else:
            names["lm_head.weight" if stored.endswith("lm_head.weight") else stored] = stored
    return names


def _listed(names: Iterable[str]) -> str:
    """A few of the names, and how many more there are."""
    every = sorted(names)
    shown = ", ".join(repr(name) for name in every[:_MOST_NAMED])
    more = f" and {len(every) - _MOST_NAMED} more" if len(every) > _MOST_NAMED else ""
    return f"tensor{'s' if len(every) > 1 else ''} {shown}{more}"
