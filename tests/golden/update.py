"""`python -m tests.golden.update` writes the golden logs anew. Look at the difference before it is committed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.conformance import harness
from tests.conformance.scenario import Case, cases

FOLDER = Path(__file__).parent


def golden_cases() -> Iterator[tuple[Case, Path]]:
    """Each case with the place of its log."""
    for path in sorted(FOLDER.glob("*.toml")):
        for case in cases(path):
            name = case.label.replace("-", ".")
            yield case, FOLDER / f"{name}.jsonl"


def main() -> None:
    """Rewrite every log, stepping each iteration."""
    for case, log in golden_cases():
        harness.run(case, leap=False, log=log)
        print(f"wrote {log.name}")


if __name__ == "__main__":
    main()
