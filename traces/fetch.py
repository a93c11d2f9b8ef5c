"""Fetch public traces from their repositories and check that every byte is as expected."""

from __future__ import annotations

import hashlib
import urllib.request
from http.client import HTTPException
from pathlib import Path

from schedlab.errors import UsageError
from traces.catalogue import Original

_TIMEOUT_S = 30
_PIECE_BYTES = 1 << 20


def target_of(files: list[Original], out: Path) -> Path:
    """What a fetched trace is called: the file itself, or for several files a folder named like the trace."""
    return out / files[0].file if len(files) == 1 else out / files[0].name


def fetch(original: Original, folder: Path) -> Path:
    """Bring one file into a folder; a file that is there with the right bytes is left alone.

    The file appears under its name only when its SHA-256 is right. UsageError names the address when the network or
    the check fails.
    """
    target = folder / original.file
    try:
        if target.is_file() and _sha256(target) == original.sha256:
            return target
        folder.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(target.name + ".partial")
    except OSError as error:
        raise UsageError(f"{target}: cannot be written ({error.strerror or error})") from error
    try:
        _download(original, partial)
        partial.replace(target)
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or repr(error)
        raise UsageError(
            f"{original.name}: cannot be fetched ({reason}); download {original.address} by hand to {target}"
        ) from error
    finally:
        partial.unlink(missing_ok=True)
    return target


def _download(original: Original, partial: Path) -> None:
    digest = hashlib.sha256()
    with urllib.request.urlopen(original.address, timeout=_TIMEOUT_S) as answer, partial.open("wb") as out:
        while piece := answer.read(_PIECE_BYTES):
            digest.update(piece)
            out.write(piece)
    if digest.hexdigest() != original.sha256:
        raise UsageError(
            f"{original.name}: {original.address} has other bytes than expected "
            f"(sha256 {digest.hexdigest()}, expected {original.sha256}); nothing was kept"
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
