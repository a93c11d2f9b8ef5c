"""Models are made once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Any, Any]]:
    """transformers' model of a case, and ours loaded from what it saves."""
    from tests.models.lab import load
    from tests.models.tiny import reference

    made: dict[str, tuple[Any, Any]] = {}

    def make(case: str) -> tuple[Any, Any]:
        if case not in made:
            folder: Path = tmp_path_factory.mktemp(case)
            theirs = reference(case)
            theirs.save_pretrained(folder)
            made[case] = (theirs, load(folder))
        return made[case]

    return make
