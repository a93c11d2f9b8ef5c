"""What a model's publishers say of generating with it: `generation_config.json`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from backends.cuda.files import read_object
from schedlab.errors import UsageError
from schedlab.request import SamplingParams

GENERATION = "generation_config.json"
_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")
_OR_NONE = ", or serve without the file's sampling: --generation-config none"


def end_tokens(folder: Path) -> tuple[int, ...]:
    """Ids that end an output, by `generation_config.json` or else `config.json`; empty if none is named.

    Raises UsageError for a file that cannot be read.
    """
    for name in (GENERATION, "config.json"):
        path = folder / name
        named = read_object(path).get("eos_token_id") if path.exists() else None
        if named is not None:
            ends = named if isinstance(named, list) else [named]
            if not all(isinstance(end, int) and not isinstance(end, bool) and end >= 0 for end in ends):
                raise UsageError(f"{path}: field 'eos_token_id': must be a token id or a list of them, got {named!r}")
            return tuple(ends)
    return ()


def sampling_defaults(folder: Path) -> dict[str, float]:
    """How to sample where a request does not say it, by the name of a request's field; what is null is left out.

    Raises UsageError for a file that cannot be read, or a value with which nothing can be sampled.
    """
    path = folder / GENERATION
    values = read_object(path) if path.exists() else {}
    found: dict[str, Any] = {name: values[name] for name in _SAMPLING if values.get(name) is not None}
    for name, value in found.items():
        kinds = int if name == "top_k" else int | float
        if isinstance(value, bool) or not isinstance(value, kinds):
            wanted = "whole number" if name == "top_k" else "number"
            raise UsageError(f"{path}: {name} is {value!r}; give a {wanted}{_OR_NONE}")
    try:
        SamplingParams(**found)
    except UsageError as error:
        raise UsageError(f"{path}: {error}{_OR_NONE}") from None
    return found
