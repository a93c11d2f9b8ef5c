"""The files of a model's folder, read in bounded time and memory."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

from schedlab.errors import UsageError

_SUFFIXES = (".json", ".jinja", ".safetensors")
# The largest published tokenizers take some 40 MB.
_MOST_TEXT_BYTES = 1 << 28


def refuse_odd_files(folder: Path) -> None:
    """Raises UsageError for a file that would be read and is a pipe or a device, leads nowhere, or is too long."""
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix in _SUFFIXES)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be read: {error.strerror}") from None
    for path in paths:
        try:
            status = path.stat()
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(f"{path}: is no regular file")
        if path.suffix != ".safetensors" and status.st_size > _MOST_TEXT_BYTES:
            raise UsageError(f"{path}: has {status.st_size:,} bytes; {_MOST_TEXT_BYTES:,} are the most")


def read_text(path: Path) -> str:
    """Raises UsageError for a file that cannot be read or is no UTF-8."""
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: is no UTF-8: {error}") from None


def read_object(path: Path) -> dict[str, Any]:
    """Raises UsageError for a file that cannot be read or is no JSON object."""
    try:
        values = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: is no JSON: {error}") from None
    if not isinstance(values, dict):
        raise UsageError(f"{path}: must hold a JSON object")
    return values
