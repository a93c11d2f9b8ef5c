"""A folder that a caller asks for, for results that replace nothing."""

from __future__ import annotations

from pathlib import Path

from schedlab.errors import UsageError


def new_folder(out: Path) -> Path:
    """Make the folder of `--out`.

    Raises UsageError if it exists or cannot be made.
    """
    try:
        out.mkdir(parents=True)
    except FileExistsError:
        raise UsageError(f"--out {out}: exists already; give a folder that does not") from None
    except OSError as error:
        raise UsageError(f"--out {out}: cannot be made ({error.strerror})") from None
    return out
