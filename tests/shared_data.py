"""Where the public traces and profiles lie that tests may read. They are not part of this repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(os.environ.get("SCHEDLAB_SHARED", Path(__file__).resolve().parent.parent.parent / "shared"))


def shared(relative: str) -> Path:
    """The path of a public file, or a skip that says which file is absent."""
    path = ROOT / relative
    if not path.exists():
        pytest.skip(f"{relative} is absent under SCHEDLAB_SHARED; `schedlab trace fetch` names its public address")
    return path
