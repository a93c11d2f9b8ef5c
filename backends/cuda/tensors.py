"""Where weights come from: safetensors files of a folder, or seeded numbers. Never a pickle."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

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

    Raises UsageError when there are none, when one that the index names is missing, or when one is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.where = str(folder)
        self._files: dict[str, Path] = {}
        for path in _files(folder):
            with _opened(path) as file:
                self._files |= dict.fromkeys(file.keys(), path)
        self._refuse_gaps(folder)
        self.names = frozenset(self._files)

    def get(self, name: str) -> Tensor:
        path = self._files[name]
        with _opened(path) as file:
            dtype = file.get_slice(name).get_dtype()
            if dtype not in READABLE:
                raise UsageError(f"{path}: tensor {name!r} is {dtype}; {', '.join(READABLE)} can be read")
            return file.get_tensor(name)

    def _refuse_gaps(self, folder: Path) -> None:
        for name, file_name in _index(folder).items():
            if name not in self._files:
                raise UsageError(f"{folder / file_name}: lacks tensor {name!r}, which {INDEX} places there")


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


def _files(folder: Path) -> list[Path]:
    named = sorted({folder / file_name for file_name in _index(folder).values()})
    files = named or sorted(folder.glob("*.safetensors"))
    if files:
        return files
    if next(folder.glob("*.bin"), None) or next(folder.glob("*.pt*"), None):
        raise UsageError(f"{folder}: has pickled weights only, and these are never read; convert them to safetensors")
    raise UsageError(f"{folder}: has no *.safetensors file")


def _index(folder: Path) -> dict[str, str]:
    path = folder / INDEX
    if not path.exists():
        return {}
    try:
        places = json.loads(path.read_text("utf-8"))["weight_map"]
        return {str(name): str(file_name) for name, file_name in places.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path}: is no index of safetensors files: {error}") from None


def _opened(path: Path) -> safe_open:
    try:
        return safe_open(path, framework="pt")
    except (OSError, SafetensorError) as error:
        raise UsageError(f"{path}: is missing, truncated or no safetensors file: {error}") from None
