"""A GGUF file, converted once into a Hugging Face folder in the user's cache: plain weights, config, tokenizer."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from gguf import GGUFReader, dequantize
from safetensors.torch import save_file
from torch import Tensor

from backends.cuda.gguf_names import FREQUENCIES, config_of, convert, llama3_scaling
from backends.cuda.gguf_tokenizer import tokenizer_of
from schedlab.errors import UsageError

# Another layout of the folder or another conversion needs another number.
_VERSION = 1


def cache_folder() -> Path:
    """Where this user's converted models lie: `$XDG_CACHE_HOME/schedlab`, or `~/.cache/schedlab`."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "schedlab"


def as_folder(path: Path) -> Path:
    """The Hugging Face folder of the GGUF file at *path*, converted if that was not done before.

    A file counts as the same while its place, size and time of change are.

    Raises UsageError when the file is missing or damaged, or its model or tokenizer is of an unknown kind.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    identity = f"{_VERSION} {path.resolve()} {status.st_size} {status.st_mtime_ns}"
    name = f"{path.stem}-{hashlib.blake2b(identity.encode(), digest_size=8).hexdigest()}"
    folder = cache_folder() / "gguf" / name
    if not folder.exists():
        _convert_aside(path, folder)
    return folder


def _convert_aside(path: Path, folder: Path) -> None:
    """Whoever looks finds a whole folder or none."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        _write_folder(path, aside)
        aside.rename(folder)
    except OSError as error:
        if not folder.exists():
            raise UsageError(f"{folder}: cannot be written: {error.strerror}") from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _write_folder(path: Path, folder: Path) -> None:
    fields, tensors = _read(path)
    where = str(path)
    config = config_of(fields, frozenset(tensors), where)
    divisors = tensors.pop(FREQUENCIES, None)
    if divisors is not None:
        config["rope_scaling"] = llama3_scaling(divisors, config, where)
    converted: dict[str, Tensor] = {}
    for name in list(tensors):
        converted |= convert(name, tensors.pop(name), config, where)
    save_file({name: tensor.contiguous() for name, tensor in converted.items()}, folder / "model.safetensors")
    tokenizer_of(fields, where).save(str(folder / "tokenizer.json"))
    _write_json(folder / "config.json", {**config, "torch_dtype": "float32"})
    _write_json(folder / "generation_config.json", _special_tokens(fields))
    _write_json(folder / "tokenizer_config.json", {"chat_template": fields.get("tokenizer.chat_template", "")})


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Metadata and dequantised tensors, row-major."""
    try:
        reader = GGUFReader(path)
        fields = {name: field.contents() for name, field in reader.fields.items()}
        tensors = {}
        for tensor in reader.tensors:
            values = dequantize(tensor.data, tensor.tensor_type)
            tensors[tensor.name] = torch.from_numpy(values.copy()).view(*reversed(tensor.shape.tolist()))
    except NotImplementedError as error:
        raise UsageError(f"{path}: {error}") from None
    except (OSError, ValueError, IndexError, KeyError, RuntimeError, TypeError) as error:
        raise UsageError(f"{path}: is truncated or no GGUF file: {error}") from None
    return fields, tensors


def _special_tokens(fields: Mapping[str, Any]) -> dict[str, Any]:
    names = {"bos_token_id": "bos", "eos_token_id": "eos", "pad_token_id": "padding"}
    found = {ours: fields.get(f"tokenizer.ggml.{theirs}_token_id") for ours, theirs in names.items()}
    return {name: value for name, value in found.items() if value is not None}


def _write_json(path: Path, values: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(values, indent=1, sort_keys=True) + "\n", encoding="utf-8")
