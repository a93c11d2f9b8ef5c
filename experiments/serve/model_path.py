"""What a server is told to load, looked at before torch is: a name instead of a folder, a folder without its files."""

from __future__ import annotations

import re
from os.path import lexists
from pathlib import Path

from backends.sim.specs.models import find_model
from schedlab.errors import UsageError

_FILES = ("config.json", "tokenizer.json")
_WEIGHTS = "*.safetensors"
# Loading tells of these by themselves that they are never read.
_PICKLED = ("*.bin", "*.pt", "*.pth")
_HUB_ID = re.compile(r"[\w.-]*[A-Za-z0-9][\w.-]*/[\w.-]+")


def refuse_no_model(model: str, *, with_weights: bool) -> None:
    """Refuse a name of which no file is here, and a folder that lacks what a server needs.

    Raises:
        UsageError: naming what to give instead, or all that is missing.
    """
    path = Path(model)
    if path.is_dir():
        # A link that leads nowhere is no file that is missing: whoever reads it says what is wrong with it.
        missing = [name for name in _FILES if not lexists(path / name)]
        if with_weights and not any(any(path.glob(kind)) for kind in (_WEIGHTS, *_PICKLED)):
            missing.append(_WEIGHTS)
        if missing:
            raise UsageError(f"{path}: has no {', no '.join(missing)}; the folder of a Hugging Face model has them")
    elif not path.exists() and path.suffix not in (".gguf", ".json"):
        ways = []
        if _HUB_ID.fullmatch(model):
            ways.append(f"nothing is downloaded here: hf download {model} --local-dir FOLDER, and give the folder")
        if _is_modelled(model):
            ways.append("to have it on a modelled GPU, add --device sim")
        if ways:
            raise UsageError(f"{model}: no such folder or file; {'; or '.join(ways)}")


def _is_modelled(name: str) -> bool:
    try:
        find_model(name)
    except UsageError:
        return False
    return True
