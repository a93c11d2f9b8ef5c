"""Which scenarios wait for which feature: `python -m tests.conformance.waiting` prints the list."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.conformance.scenario import cases, files

INDEX: dict[str, Any] = tomllib.loads(Path(__file__).with_name("index.toml").read_text(encoding="utf-8"))
# The features that do not exist yet, by name: what each is, and a path of the repository that comes with it.
MISSING: Mapping[str, Mapping[str, str]] = INDEX["missing"]


def waiting() -> dict[str, list[str]]:
    """The cases that wait for each feature, by the feature's name as the file gives it."""
    found: dict[str, list[str]] = {name: [] for name in MISSING}
    for path in files():
        for case in cases(path):
            if case.waits_for:
                found.setdefault(case.waits_for, []).append(case.label)
    return found


def main() -> None:
    """A line for each missing feature, and under it who waits for it."""
    for feature, labels in waiting().items():
        print(f"{feature}: {MISSING[feature]['what']}\n    {' '.join(labels)}")


if __name__ == "__main__":
    main()
