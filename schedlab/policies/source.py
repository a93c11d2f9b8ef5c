"""The file in which a policy's class stands, so that whoever repeats a run learns that it has changed."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from schedlab.policies.base import Policy


def policy_sha256(name: str, policy: Policy) -> str | None:
    """SHA-256 of the file of the class that `name` led to; what that file imports is not in it.

    None for this project's own, which its version stands for, and for a class whose file cannot be read, or is none.
    """
    module = type(policy).__module__
    if module.partition(".")[0] == "schedlab":
        return None
    where = name.rpartition(":")[0]
    # Two files may have one module's name, so a file that was named speaks for itself.
    file = where if where.endswith(".py") else getattr(sys.modules.get(module), "__file__", None)
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file is not None else None
    except OSError:
        return None
