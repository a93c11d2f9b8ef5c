"""Code that a user names: `package.module:Name` or `path/to/file.py:Name`."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from schedlab.errors import UsageError


def load(place: str) -> Any:
    """What a module or a file calls by that name. Modules are looked for in the current folder too.

    A file without a name is refused as one whose name is missing: it may have several classes.

    Raises:
        UsageError: there is no such file, module or name. Errors of the code itself come out as they are.
    """
    where, _, name = (place, "", "") if place.endswith(".py") else place.rpartition(":")
    module = _from_file(Path(where)) if where.endswith(".py") else _from_module(where)
    if not hasattr(module, name):
        raise UsageError(f"{where} {f'has no {name!r}' if name else 'names no class'}; its classes: {_own(module)}")
    return getattr(module, name)


def _own(module: ModuleType) -> str:
    """The classes of a module or its package, without those that it imports from elsewhere."""
    package = module.__name__.partition(".")[0]
    classes = ((key, value) for key, value in vars(module).items() if isinstance(value, type))
    return ", ".join(key for key, value in classes if value.__module__.partition(".")[0] == package) or "none"


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"{path}: no such file; give file.py:Class or module:Class")
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    # Dataclasses and pickles of the file look their module up by its name.
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    return module


def _from_module(name: str) -> ModuleType:
    sys.path.insert(0, "")
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and name.startswith(error.name):
            raise UsageError(f"no module {name!r}; run where it can be imported, or give file.py:Class") from None
        raise
    finally:
        sys.path.remove("")
