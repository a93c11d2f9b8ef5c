"""Runs that `make check-deep` once told of, kept as `schedlab check` saves them: every law holds in them now."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from schedlab.policies.registry import find_policy
from schedlab.testing import loads, play

FOUND = sorted(Path(__file__).with_name("found").glob("*.json"))


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_what_was_found_once_is_found_no_more(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    play(loads(text, find_policy(json.loads(text)["policy"])))
