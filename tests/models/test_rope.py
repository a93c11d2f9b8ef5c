"""Tables of rotary angles beside those of transformers, for every field that a scaling may have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.torch_needed import torch  # isort: skip

from backends.cuda.families import read_spec
from tests.models.tiny import reference

YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 128}
SCALINGS: list[dict[str, Any]] = [
    {"rope_type": "linear", "rope_theta": 1e4, "factor": 3.0},
    {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 3.0},
    YARN,
    {**YARN, "rope_theta": 1e6, "factor": 1.0},
    {**YARN, "attention_factor": 1.5},
    {**YARN, "beta_fast": 8, "beta_slow": 2},
    {**YARN, "beta_fast": None, "beta_slow": 3.5},
    {**YARN, "truncate": False},
    {**YARN, "mscale": 0.7, "mscale_all_dim": 1.3},
    {**YARN, "mscale": 0.7},
    {**YARN, "factor": None},
    {**YARN, "original_max_position_embeddings": 6},
]


def named(scaling: dict[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in scaling.items())


@pytest.mark.parametrize("scaling", SCALINGS, ids=named)
def test_angles_are_those_of_transformers(scaling: dict[str, Any], tmp_path: Path) -> None:
    theirs = reference("llama2", rope_parameters=scaling)
    theirs.config.save_pretrained(tmp_path)
    spec = read_spec(tmp_path / "config.json")
    positions = torch.arange(512)
    cos, sin = theirs.model.rotary_emb(torch.zeros(1), positions[None])
    own_cos, own_sin = spec.ropes[0].tables(spec.head_dim, 512)
    half = spec.head_dim // 2
    torch.testing.assert_close(own_cos, cos[0], rtol=0, atol=2e-5)
    torch.testing.assert_close(own_sin[:, half:], sin[0, :, half:], rtol=0, atol=2e-5)
    torch.testing.assert_close(own_sin[:, :half], -sin[0, :, :half], rtol=0, atol=2e-5)


def test_yarn_reaches_as_far_as_it_was_made_for(tmp_path: Path) -> None:
    """As Qwen3's cards say to write it: `max_position_embeddings` stays as it was."""
    reference("qwen3").config.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 384}
    path.write_text(json.dumps({**config, "rope_parameters": None, "rope_theta": 1e4, "rope_scaling": scaling}))
    assert read_spec(path).max_model_len == 4 * 384
