"""Packages that only some commands need, and how to get them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec

from schedlab.errors import UsageError


def need(who: str, modules: Sequence[str], otherwise: str = "") -> None:
    """Refuse to go on without the modules; `otherwise` is what a caller may do instead of installing them.

    The packages are named one by one and not as an extra of this project: that holds in a clone as in an installation.

    Raises UsageError with the command that installs what is missing into this Python.
    """
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        how = f"{sys.executable} -m pip install {' '.join(missing)}"
        raise UsageError(f"{who} needs {', '.join(missing)}; install with: {how}{otherwise and f' ({otherwise})'}")
