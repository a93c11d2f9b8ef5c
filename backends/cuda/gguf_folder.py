"""A GGUF file, converted once into a Hugging Face folder in the user's cache: plain weights, config, tokenizer."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from backends.cuda.checkpoint import Checkpoint, wanted_shapes
from backends.cuda.families import spec_of
from backends.cuda.gguf_config import config_of, llama3_scaling
from backends.cuda.gguf_file import GgufFile
from backends.cuda.gguf_names import FREQUENCIES, GgufTensors
from backends.cuda.gguf_tokenizer import special_tokens, tokenizer_config, tokenizer_of
from backends.cuda.tensors import INDEX
from backends.sim.specs.hf_fields import Fields
from schedlab.errors import UsageError

# Another layout of the folder or another conversion needs another number.
_VERSION = 2
# Weights are held in memory until they fill a file.
_SHARD_BYTES = 1 << 30
# How long to wait for another process that converts a file.
_PATIENCE_S = 3600
_POLL_S = 0.1
# In each folder: the place of its GGUF file. It is written again whenever the folder is used.
_SOURCE = "gguf_file.txt"
# Another process may still load a folder that was last asked for less than so long ago.
_IN_USE_S = 3600


def cache_folder() -> Path:
    """Where this user's converted models lie: `$XDG_CACHE_HOME/schedlab`, or `~/.cache/schedlab`.

    Raises UsageError for a user without a home.
    """
    chosen = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(chosen) if chosen else Path.home() / ".cache") / "schedlab"
    except RuntimeError:
        raise UsageError("this user has no home folder; set XDG_CACHE_HOME to a folder for converted models") from None


def as_folder(path: Path) -> Path:
    """The Hugging Face folder of the GGUF file at *path*, converted if that was not done before.

    A file counts as the same while its place, size and times of change are. What was converted from it when it was
    another is removed, once nobody has used that for an hour.

    Raises UsageError when the file is missing or damaged, its model or tokenizer is of an unknown kind, or the cache
    cannot be written.
    """
    identity = _identity(path)
    folder = cache_folder() / "gguf" / f"{path.stem}-{hashlib.blake2b(identity.encode(), digest_size=8).hexdigest()}"
    try:
        if not folder.exists():
            with _alone(folder.parent):
                if not folder.exists():
                    _convert_aside(path, folder, identity)
    except (OSError, SafetensorError) as error:
        raise UsageError(
            f"{folder}: cannot be written ({error}); set XDG_CACHE_HOME to a folder with room for the unpacked weights"
        ) from None
    # A cache that can only be read serves as well.
    with suppress(OSError):
        _note_use(folder, path.resolve())
    return folder


def _note_use(folder: Path, place: Path) -> None:
    """And remove what the same file had become before."""
    line = os.fsencode(place) + b"\n"
    (folder / _SOURCE).write_bytes(line)
    for note in folder.parent.glob(f"*/{_SOURCE}"):
        is_of_this_file = note.parent != folder and note.read_bytes() == line
        if is_of_this_file and time.time() - note.stat().st_mtime > _IN_USE_S:
            # Whoever looks finds a whole folder or none; what is left of it goes with the next conversion.
            aside = note.parent.rename(note.parent.with_name(f"{note.parent.name}.part"))
            shutil.rmtree(aside, ignore_errors=True)


def _identity(path: Path) -> str:
    try:
        status = path.stat()
        place = path.resolve()
    except (OSError, RuntimeError) as error:
        raise UsageError(f"{path}: cannot be read: {getattr(error, 'strerror', error)}") from None
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(f"{path}: is no regular file")
    return f"{_VERSION} {place} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"


@contextmanager
def _alone(cache: Path) -> Iterator[None]:
    """One conversion at a time in a cache, since each needs memory; the lock of a process that dies is free at once.

    Raises UsageError when another holds it for too long.
    """
    cache.mkdir(parents=True, exist_ok=True)
    lock = os.open(cache, os.O_RDONLY | os.O_DIRECTORY)
    try:
        deadline = time.monotonic() + _PATIENCE_S
        while not _is_locked(lock):
            if time.monotonic() > deadline:
                raise UsageError(f"{cache}: another process converts a model there and does not finish; end it")
            time.sleep(_POLL_S)
        yield
    finally:
        os.close(lock)


def _is_locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _convert_aside(path: Path, folder: Path, identity: str) -> None:
    """Whoever looks finds a whole folder or none. What an interrupted conversion left is thrown away."""
    for left in folder.parent.glob("*.part"):
        shutil.rmtree(left, ignore_errors=True)
    aside = folder.with_name(f"{folder.name}.part")
    aside.mkdir()
    try:
        _write_folder(path, aside)
        if _identity(path) != identity:
            raise UsageError(f"{path}: changed while it was read; try again when it is whole")
        aside.rename(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _write_folder(path: Path, folder: Path) -> None:
    file = GgufFile(path)
    config = config_of(file.fields, frozenset(file.places), file.where)
    spec = spec_of(Fields(path, config))
    if FREQUENCIES in file.places:
        config["rope_scaling"] = llama3_scaling(file.tensor(FREQUENCIES), config, file.where)
    checkpoint = Checkpoint(spec, GgufTensors(file, spec))
    tokenizer = tokenizer_of(file.fields, file.where)
    dtype = _write_weights(checkpoint, list(wanted_shapes(spec)), folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    _write_json(folder / "config.json", {**config, "torch_dtype": dtype})
    _write_json(folder / "generation_config.json", special_tokens(file.fields))
    _write_json(folder / "tokenizer_config.json", tokenizer_config(file.fields))
    for written in folder.iterdir():
        _flush(written)


def _write_weights(checkpoint: Checkpoint, names: list[str], folder: Path) -> str:
    """Writes files of a bounded size and their index. Returns the type that the embeddings have."""
    shard: dict[str, Tensor] = {}
    places: dict[str, str] = {}
    dtype, held_bytes = "", 0
    for name in names:
        tensor = shard[name] = checkpoint.get(name).contiguous()
        dtype = dtype or str(tensor.dtype).removeprefix("torch.")
        held_bytes += tensor.nbytes
        if name == names[-1] or held_bytes >= _SHARD_BYTES:
            file_name = f"model-{len(set(places.values())) + 1:05}.safetensors"
            save_file(shard, folder / file_name)
            places |= dict.fromkeys(shard, file_name)
            shard, held_bytes = {}, 0
    _write_json(folder / INDEX, {"metadata": {}, "weight_map": places})
    return dtype


def _flush(path: Path) -> None:
    """To the disk, so that no crash leaves a folder with its name and without its content."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _write_json(path: Path, values: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(values, indent=1, sort_keys=True) + "\n", encoding="utf-8")
