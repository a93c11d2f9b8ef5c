"""Typed access to the fields of a Hugging Face `config.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from schedlab.errors import UsageError

_LARGEST = 10**8


def text_fields(path: Path) -> Fields:
    """The fields of the file at *path*; a multi-modal file's `text_config` is the model.

    Raises UsageError when it cannot be read or is no JSON object.
    """
    return Fields(path, _text_model(path))


class Fields:
    """Typed access to the fields of one file, with errors that name both."""

    def __init__(self, path: Path, values: Mapping[str, Any]) -> None:
        self.path = path
        self._values = values
        self.model_type = str(values.get("model_type", ""))
        named = values.get("_name_or_path") or path.resolve().parent.name or "model"
        self.name = str(named)

    def with_defaults(self, defaults: Mapping[str, Any]) -> Fields:
        """The same, and *defaults* for fields that the file does not have; a null in the file stays."""
        return Fields(self.path, {**defaults, **self._values})

    def error(self, field: str, problem: str) -> UsageError:
        return UsageError(f"{self.path}: field {field!r}: {problem}")

    def get(self, field: str, default: Any = None) -> Any:
        value = self._values.get(field)
        return default if value is None else value

    def flag(self, field: str, default: bool) -> bool:
        value = self.get(field, default)
        if not isinstance(value, bool):
            raise self.error(field, f"must be true or false, got {value!r}")
        return value

    def count(self, field: str, default: int | None = None, least: int = 1, most: int = _LARGEST) -> int:
        value = self.get(field, default)
        if value is None:
            raise self.error(field, "is missing; a decoder-only model's config.json has it")
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.error(field, f"must be a whole number in {least}..{most}, got {value!r}")
        return value


def _text_model(path: Path) -> Mapping[str, Any]:
    try:
        values = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: is not JSON: {error}") from None
    if not isinstance(values, dict):
        raise UsageError(f"{path}: must hold a JSON object, as a Hugging Face config.json does")
    nested = values.get("text_config")
    return {**values, **nested} if isinstance(nested, dict) else values
