"""Finding a record by the name a person would type."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from schedlab.errors import UsageError


def plain(name: str) -> str:
    """Lower-case letters and digits only, without an owner such as `meta-llama/`."""
    return re.sub(r"[^a-z0-9]", "", name.rsplit("/", 1)[-1].lower())


def find_name(kind: str, name: str, keys: Mapping[str, str], listed: Iterable[str]) -> str:
    """The record name that *name* means; *keys* maps plain names and aliases to record names.

    Raises UsageError naming close matches and everything that is known.
    """
    found = keys.get(plain(name))
    if found is not None:
        return found
    close = list(dict.fromkeys(keys[key] for key in get_close_matches(plain(name), keys, n=3, cutoff=0.6)))
    hint = f"did you mean {' or '.join(close)}? " if close else ""
    raise UsageError(f"unknown {kind} {name!r}: {hint}known: {', '.join(listed)}")
