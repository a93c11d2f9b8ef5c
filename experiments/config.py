"""`config.json`: what repeats a run, and what followed from it for the reader."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from experiments.options import ReplayOptions, options_from
from schedlab.errors import UsageError

FORMAT = "schedlab_replay"
VERSION_KEY = "schedlab_version"
_HEAD_CHARS = 64


def schedlab_version() -> str:
    """The installed version of this project."""
    try:
        return version("schedlab")
    except PackageNotFoundError:
        return "unknown"


def dump(document: Mapping[str, Any]) -> bytes:
    """A JSON document as the bytes of its file: the order of its keys, no NaN, a newline at the end."""
    return (json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False) + "\n").encode()


def is_config(path: Path) -> bool:
    """Whether a file is the `config.json` of a replay, told by its first field."""
    try:
        if not path.is_file():
            return False
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(_HEAD_CHARS).lstrip("{ \r\n\t").startswith(f'"{FORMAT}"')
    except OSError:
        return False


def read_config(path: Path) -> tuple[ReplayOptions, dict[str, Any]]:
    """The options in a `config.json`, and the whole document.

    Raises:
        UsageError: it cannot be read, is damaged, or was written in another format.
    """
    try:
        document = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not readable as JSON ({error}); give the config.json of a replay") from None
    if not isinstance(document, dict) or document.get(FORMAT) != 1 or not isinstance(document.get("options"), dict):
        raise UsageError(f"{path}: not the config.json of a replay (format 1); run the replay again with flags")
    return options_from(document["options"], f"{path}: "), document


def check_repeats(path: Path, recorded: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to repeat a run whose trace, policy, model or settings are no longer what they were.

    Another version of this project is no reason; its results say so.

    Raises:
        UsageError: naming the first thing that differs, with both values.
    """
    before, after = dict(_leaves(recorded)), dict(_leaves(now))
    if before.get("trace.sha256") != after["trace.sha256"]:
        source = after["trace.source"]
        raise UsageError(
            f"{path}: the trace {source} has changed since: its sha256 is {after['trace.sha256']}, it was "
            f"{before.get('trace.sha256')}; bring back that file, or start a new replay"
        )
    if before.get("policy.sha256") != after.get("policy.sha256"):
        policy = after["options.policy"]
        raise UsageError(
            f"{path}: the file of policy {policy} has changed since: its sha256 is {after.get('policy.sha256')}, it "
            f"was {before.get('policy.sha256')}; bring back that file, or start a new replay with --policy {policy}"
        )
    for name in dict.fromkeys([*before, *after]):
        if name != VERSION_KEY and before.get(name) != after.get(name):
            raise UsageError(
                f"{path}: this would not repeat the run: {name} was {before.get(name)!r} and is now {after.get(name)!r}"
            )


def _leaves(document: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in document.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
