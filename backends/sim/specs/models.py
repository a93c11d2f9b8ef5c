"""Models by name, from `models.toml`, or from the path of a Hugging Face `config.json`."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from backends.sim.specs.names import find_name, plain
from backends.sim.specs.recurrent import RecurrentLayers
from backends.sim.specs.shape import ModelShape

__all__ = ["ModelShape", "all_models", "find_model"]

# Fine-tunes have the shape of their base model: `Llama-3-8B-Instruct` is `Llama-3-8B`.
_FINE_TUNE = re.compile(r"(instruct|chat|hf|base|it)$")


@cache
def all_models() -> MappingProxyType[str, ModelShape]:
    """Every bundled model by its name, in the file's order."""
    shapes = {name: ModelShape(name=name, **_fields(fields)) for name, fields in _table().items()}
    return MappingProxyType(shapes)


def find_model(name_or_path: str) -> ModelShape:
    """The model called *name_or_path*, without regard to case, punctuation, owner and `-Instruct`, `-chat`, `-hf`.

    A path of a `config.json`, or of a folder that has one, is read instead. Raises UsageError.
    """
    path, keys = Path(name_or_path), _keys()
    if path.suffix == ".json":
        return _read_config(path)
    if (path / "config.json").is_file():
        return _read_config(path / "config.json")
    wanted = plain(name_or_path)
    while wanted not in keys and _FINE_TUNE.search(wanted):
        wanted = _FINE_TUNE.sub("", wanted)
    if wanted not in keys and path.is_dir():
        return _read_config(path / "config.json")
    shapes = all_models()
    return shapes[find_name("model", wanted if wanted in keys else name_or_path, keys, shapes)]


def _read_config(path: Path) -> ModelShape:
    from backends.sim.specs.hf_config import read_config

    return read_config(path)


@cache
def _keys() -> dict[str, str]:
    keys = {}
    for name, fields in _table().items():
        keys.update({plain(alias): name for alias in (name, *fields.get("aliases", ()))})
    return keys


@cache
def _table() -> dict[str, dict[str, Any]]:
    return tomllib.loads(Path(__file__).with_name("models.toml").read_text("utf-8"))


def _fields(fields: dict[str, Any]) -> dict[str, Any]:
    found = {key: value for key, value in fields.items() if key != "aliases"}
    if "recurrent" in found:
        found["recurrent"] = RecurrentLayers(**found["recurrent"])
    return found
