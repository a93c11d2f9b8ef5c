"""Models of seeded random weights: for whoever needs a real device, whatever it says."""

from __future__ import annotations

import torch

from backends.cuda.checkpoint import Checkpoint, wanted_shapes
from backends.cuda.loading import longest_of
from backends.cuda.model import Model
from backends.cuda.operations import operations_for
from backends.cuda.rope import RopeSpec
from backends.cuda.spec import ModelSpec
from backends.cuda.tensors import SeededTensors
from backends.cuda.weights import assemble

_LAYERS = 2


def tiny_spec(max_model_len: int) -> ModelSpec:
    """A Llama so small that a step takes about a millisecond on a CPU."""
    return ModelSpec(
        name="tiny",
        family="llama",
        layers=_LAYERS,
        hidden=32,
        heads=4,
        kv_heads=2,
        head_dim=8,
        intermediate=64,
        vocab=512,
        max_model_len=max_model_len,
        rms_eps=1e-6,
        windows=(None,) * _LAYERS,
        ropes=(RopeSpec(),) * _LAYERS,
        scale=8**-0.5,
    )


def seeded_model(spec: ModelSpec, device: torch.device, *, seed: int = 0, max_model_len: int | None = None) -> Model:
    """A model of that shape in float32; the same weights on every machine.

    Raises UsageError for a `max_model_len` beyond what the model was made for.
    """
    longest, source = longest_of(spec, max_model_len), Checkpoint(spec, SeededTensors(wanted_shapes(spec), seed))
    return Model(spec, assemble(spec, source, torch.float32, device), operations_for(device), longest)
