"""Small models fitted to public traces, shipped with the project. Each JSON file names its source and licence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlab.errors import UsageError
from traces.options import ReadOptions
from traces.source import Source

if TYPE_CHECKING:
    from traces.generators.arrivals import EmpiricalGaps
    from traces.generators.lengths import Quantiles
    from traces.generators.synthetic import SyntheticTrace

FOLDER = Path(__file__).parent


def model_names() -> list[str]:
    """The shipped models, by name."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def model_path(name: str) -> Path | None:
    """Where a shipped model lies, or a model file that is given by its path; None for anything else."""
    path = Path(name)
    if path.suffix == ".json" and path.is_file():
        return path
    return FOLDER / f"{name}.json" if name in model_names() else None


def open_model(name: str, options: ReadOptions) -> SyntheticTrace:
    """A shipped model as a trace. UsageError when there is no such model."""
    if name not in model_names():
        raise UsageError(f"{name}: no such model; shipped models: {', '.join(model_names())}")
    return open_model_file(Source(FOLDER / f"{name}.json"), options)


def open_model_file(source: Source, options: ReadOptions) -> SyntheticTrace:
    """A model that `python -m traces.fit` wrote, as a trace of `options.rows` rows drawn with `options.seed`."""
    from traces.generators.synthetic import SyntheticTrace

    gaps, lengths, model = load_model(source)
    rows = int(model["rows"]) if options.rows is None else options.rows
    origin = f"modelled, not original: drawn from {model['name']}, fitted to {model['source']['title']}"
    notes = (origin, model["source"]["credit"])
    return SyntheticTrace(model["name"], gaps, lengths, rows, options.seed, notes)


def load_model(source: Source) -> tuple[EmpiricalGaps, Quantiles, dict[str, Any]]:
    """The gaps and lengths of a model file, and its values as they are written. UsageError when it is not one."""
    from traces.generators.arrivals import EmpiricalGaps
    from traces.generators.lengths import Quantiles

    with source.text() as lines:
        try:
            model = json.load(lines)
            gaps, lengths = EmpiricalGaps(**_tuples(model["arrivals"])), Quantiles(**_tuples(model["lengths"]))
            if not (isinstance(model["name"], str) and {"title", "credit"} <= model["source"].keys() and model["rows"]):
                raise ValueError("name, rows and source are needed")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            problem = f"{type(error).__name__}: {error}"
            raise UsageError(f"{source.name}: not a schedlab model ({problem}); fit it with traces.fit") from error
    return gaps, lengths, model


def _tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items() if key != "kind"}
