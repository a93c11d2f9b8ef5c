"""Where weights come from: safetensors files of a folder, or seeded numbers. Never a pickle."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from backends.cuda.files import read_object
from schedlab.errors import UsageError

READABLE = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
INDEX = "model.safetensors.index.json"


class TensorSource(Protocol):
    """Tensors by name, under the names of a Hugging Face checkpoint.

    Attributes:
        where: what a message calls it.
        names: all that it has.
    """

    where: str
    names: frozenset[str]

    def get(self, name: str) -> Tensor:
        """One tensor. Raises UsageError when its file is damaged or its type cannot be read."""
        ...


class SafetensorsFolder:
    """The `*.safetensors` files of a folder, by their index if there is one.

    Raises UsageError when there are none, when the index does not fit them, or when one is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.where = str(folder)
        self._files: dict[str, Any] = {}
        self._paths: dict[str, Path] = {}
        for path, wanted in _shards(folder).items():
            file = _opened(path)
            stored = set(file.keys())
            for name in wanted or sorted(stored):
                self._add(name, path, file, stored)
        self.names = frozenset(self._files)

    def get(self, name: str) -> Tensor:
        file, path = self._files[name], self._paths[name]
        dtype = file.get_slice(name).get_dtype()
        if dtype not in READABLE:
            raise UsageError(f"{path}: tensor {name!r} is {dtype}; {', '.join(READABLE)} can be read")
        tensor: Tensor = file.get_tensor(name)
        return tensor

    def _add(self, name: str, path: Path, file: Any, stored: set[str]) -> None:
        if name not in stored:
            raise UsageError(f"{path}: lacks tensor {name!r}, which {INDEX} places there")
        if name in self._files:
            raise UsageError(f"{path}: has tensor {name!r}, and so has {self._paths[name]}; remove the wrong file")
        self._files[name], self._paths[name] = file, path


class SeededTensors:
    """Random weights of given shapes: each follows from the seed and its name only, whatever is asked for before."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], seed: int) -> None:
        self.where = f"seeded weights (seed {seed})"
        self.names = frozenset(shapes)
        self._shapes, self._seed = shapes, seed

    def get(self, name: str) -> Tensor:
        shape = self._shapes[name]
        if name.endswith("norm.weight"):
            return torch.ones(shape)
        generator = torch.Generator().manual_seed(_seed_of(self._seed, name))
        deviation = 0.02 if len(shape) < 2 else 1 / math.sqrt(shape[-1])
        return torch.empty(shape).normal_(0, deviation, generator=generator)


def _seed_of(seed: int, name: str) -> int:
    digest = seed
    for byte in name.encode():
        digest = (digest * 1_000_003 + byte) % (1 << 61)
    return digest


def _shards(folder: Path) -> dict[Path, list[str]]:
    """The files to read, each with the tensors that the index places there; none are named without an index."""
    shards: dict[Path, list[str]] = {}
    for name, file_name in sorted(_index(folder).items()):
        shards.setdefault(folder / file_name, []).append(name)
    shards = shards or {path: [] for path in sorted(folder.glob("*.safetensors"))}
    if shards:
        return shards
    if next(folder.glob("*.bin"), None) or next(folder.glob("*.pt*"), None):
        raise UsageError(f"{folder}: has pickled weights only, and these are never read; convert them to safetensors")
    raise UsageError(f"{folder}: has no *.safetensors file")


def _index(folder: Path) -> dict[str, str]:
    path = folder / INDEX
    if not path.exists():
        return {}
    places = read_object(path).get("weight_map")
    if not isinstance(places, dict):
        raise UsageError(f"{path}: field 'weight_map' is missing or no object; an index of safetensors files has it")
    for name, file_name in places.items():
        if not isinstance(file_name, str) or not re.fullmatch(r"[^/\\\0]+\.safetensors", file_name):
            raise UsageError(f"{path}: places tensor {name!r} in {file_name!r}, which is no safetensors file beside it")
    return places


def _opened(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except (OSError, SafetensorError) as error:
        raise UsageError(f"{path}: is missing, truncated or no safetensors file: {error}") from None
