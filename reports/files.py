"""Writes result files whole or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from schedlab.errors import UsageError


def replace_file(path: str | os.PathLike[str], content: bytes) -> Path:
    """Write `content` beside `path` and rename it into place, so that a reader never sees half a file.

    Raises:
        UsageError: the file cannot be written.
    """
    target = Path(path)
    draft = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        draft.write_bytes(content)
        draft.replace(target)
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror or error}; choose a writable place") from error
    finally:
        with suppress(OSError):
            draft.unlink()
    return target
