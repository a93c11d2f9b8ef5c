"""From a path to a model in memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

import torch

from backends.cuda.checkpoint import Checkpoint, wanted_shapes
from backends.cuda.families import read_spec
from backends.cuda.files import refuse_odd_files
from backends.cuda.gguf_folder import as_folder
from backends.cuda.host_memory import keep_freed_memory
from backends.cuda.model import Model
from backends.cuda.operations import operations_for
from backends.cuda.sizing import memory_bytes_of
from backends.cuda.spec import ModelSpec
from backends.cuda.tensors import SafetensorsFolder, SeededTensors, TensorSource
from backends.cuda.weights import assemble
from schedlab.errors import UsageError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class LoadFormat(StrEnum):
    """Where weights come from: the model's files, or seeded random numbers in its shape."""

    AUTO = "auto"
    DUMMY = "dummy"


def model_folder(path: Path) -> Path:
    """The Hugging Face folder of a model: *path* itself, or what a GGUF file was converted to.

    Raises UsageError when there is none, or a file in it cannot be read in bounded time and memory.
    """
    if path.is_dir():
        refuse_odd_files(path)
        if not (path / "config.json").exists():
            raise UsageError(f"{path}: has no config.json; a Hugging Face model folder has one")
        return path
    if path.suffix == ".gguf":
        return as_folder(path)
    raise UsageError(f"{path}: is no folder of a Hugging Face model and no .gguf file")


def load_model(
    path: Path,
    *,
    device: torch.device,
    dtype: str = "auto",
    load_format: LoadFormat = LoadFormat.AUTO,
    seed: int = 0,
    max_model_len: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Model:
    """The model of a folder or a GGUF file, ready to run.

    Args:
        dtype: of weights and KV; auto = what the checkpoint names, and float32 on a CPU.
        seed: of the dummy weights.
        max_model_len: longest sequence; None = what the model was made for.
        progress: told of layers done and all layers.

    Raises UsageError for anything wrong with the files or the arguments.
    """
    if device.type == "cpu":
        keep_freed_memory()
    folder = model_folder(path)
    spec = read_spec(folder / "config.json")
    kind, longest = _dtype(dtype, spec, device), longest_of(spec, max_model_len)
    is_dummy = load_format is LoadFormat.DUMMY
    source: TensorSource = SeededTensors(wanted_shapes(spec), seed) if is_dummy else SafetensorsFolder(folder)
    checkpoint = Checkpoint(spec, source)
    _refuse_too_large(spec, kind, longest, device, checkpoint.where)
    return Model(spec, assemble(spec, checkpoint, kind, device, progress), operations_for(device), longest)


def longest_of(spec: ModelSpec, wanted: int | None) -> int:
    """Tokens of the longest sequence: as wanted, or as many as the model was made for.

    Raises UsageError for more than that.
    """
    if wanted is None:
        return spec.max_model_len
    if not 1 <= wanted <= spec.max_model_len:
        raise UsageError(f"max_model_len is {wanted}; {spec.name} can do 1..{spec.max_model_len}")
    return wanted


def _dtype(name: str, spec: ModelSpec, device: torch.device) -> torch.dtype:
    if name == "auto":
        name = "float32" if device.type == "cpu" else spec.dtype
        if name not in DTYPES:
            raise UsageError(f"{spec.name}: its dtype {name!r} is not known; choose one by --dtype")
    if name not in DTYPES:
        raise UsageError(f"dtype {name!r} is not known; choose {', '.join(DTYPES)} or auto")
    return DTYPES[name]


def _refuse_too_large(spec: ModelSpec, dtype: torch.dtype, longest: int, device: torch.device, where: str) -> None:
    """Before anything is allocated."""
    weights = sum(math.prod(shape) for shape in wanted_shapes(spec).values()) * dtype.itemsize
    tables = 2 * len(set(spec.ropes)) * longest * spec.head_dim * torch.float32.itemsize
    room = memory_bytes_of(device)
    if weights + tables > room:
        raise UsageError(
            f"{where}: the weights take {weights:,} bytes as {str(dtype).removeprefix('torch.')} and its tables of "
            f"angles {tables:,} for {longest:,} positions; {device} has {room:,}. Choose a smaller model, dtype or "
            "max_model_len"
        )
