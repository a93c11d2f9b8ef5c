"""Small models fitted to public traces, shipped with the project. Each JSON file names its source and licence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab.errors import UsageError
from traces.options import ReadOptions
from traces.source import Source

if TYPE_CHECKING:
    from traces.generators.synthetic import SyntheticTrace

FOLDER = Path(__file__).parent


def model_names() -> list[str]:
    """The shipped models, by name."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def open_model(name: str, options: ReadOptions) -> SyntheticTrace:
    """A shipped model as a trace. UsageError when there is no such model."""
    path = FOLDER / f"{name}.json"
    if not path.is_file():
        raise UsageError(f"{name}: no such model; shipped models: {', '.join(model_names())}")
    return open_model_file(Source(path), options)


def open_model_file(source: Source, options: ReadOptions) -> SyntheticTrace:
    """A model that `python -m traces.fit` wrote, as a trace of `options.rows` rows drawn with `options.seed`."""
    from traces.generators.arrivals import EmpiricalGaps
    from traces.generators.lengths import Quantiles
    from traces.generators.synthetic import SyntheticTrace

    with source.text() as lines:
        try:
            model = json.load(lines)
            arrivals = EmpiricalGaps(**_tuples(model["arrivals"]))
            lengths = Quantiles(**_tuples(model["lengths"]))
            rows = int(model["rows"]) if options.rows is None else options.rows
            notes = (
                f"modelled, not original: drawn from {model['name']}, fitted to {model['source']['title']}",
                model["source"]["credit"],
            )
            name = str(model["name"])
        except (ValueError, TypeError, KeyError) as error:
            problem = f"{type(error).__name__}: {error}"
            raise UsageError(f"{source.name}: not a schedlab model ({problem}); fit it with traces.fit") from error
    return SyntheticTrace(name, arrivals, lengths, rows, options.seed, notes)


def _tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items() if key != "kind"}
