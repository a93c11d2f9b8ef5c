"""Attacks on policies that a user names: where they are looked for, what is refused and how, and their parameters."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from schedlab.errors import UsageError
from schedlab.policies.fifo import Fifo
from schedlab.policies.load import load
from schedlab.policies.presets import PRESETS
from schedlab.policies.registry import build
from tests.mutants.attack import Attack

POLICY = """
from dataclasses import dataclass
from schedlab.policies.fifo import Fifo
some_number = 3
class Mine(Fifo):
    def __init__(self, config, word="w", count: int = 1, share: float = 0.5, on: bool = False):
        super().__init__(config)
        self.all = word, count, share, on
"""


def told(act: Callable[[], Any]) -> str:
    """What a user is told who is refused."""
    try:
        act()
    except UsageError as error:
        return str(error)
    raise AssertionError("nothing is refused")


def names_are_looked_up_where_they_say() -> None:
    """In a module, and in a file; who is refused is told which classes there are, and no path stays behind."""
    before = list(sys.path)
    assert load("schedlab.policies.fifo:Fifo") is Fifo
    with TemporaryDirectory() as folder:
        path = Path(folder) / "schedlab_named_policy.py"
        path.write_text(POLICY, encoding="utf-8")
        assert load(f"{path}:some_number") == 3 and issubclass(load(f"{path}:Mine"), Fifo)
        message = told(lambda: load(f"{path}:Other"))
        assert "'Other'" in message and message.endswith("its classes: Mine"), message
        path.write_text("import schedlab_that_is_not_there", encoding="utf-8")
        _fails_itself(f"{path}:Mine")
        path.rename(path.with_stem("schedlab_named_module"))
        sys.path.insert(0, folder)
        try:
            _fails_itself("schedlab_named_module:Mine")
        finally:
            sys.path.remove(folder)
            sys.modules.pop(path.stem, None)
        assert "no such file" in told(lambda: load(f"{folder}/nothing.py:Mine"))
    for module in ("schedlab_that_is_not_there", "schedlab.that_is_not_there", "schedlab_not.there.at.all"):
        assert f"no module {module!r}" in told(lambda place=f"{module}:Mine": load(place))
    assert "its classes: none" in told(lambda: load("keyword:Mine"))
    assert sys.path == before, "the path is as it was"


def _fails_itself(place: str) -> None:
    """The code that is found has an error of its own, which comes out as it is."""
    try:
        load(place)
    except ModuleNotFoundError as error:
        assert error.name == "schedlab_that_is_not_there"
        return
    raise AssertionError(f"{place} is loaded")


def parameters_are_read_by_their_kind() -> None:
    """A policy's own and the configuration's, in all spellings; a parameter without a kind is a text."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "schedlab_other_policy.py"
        path.write_text(POLICY, encoding="utf-8")

        def made(**settings: str) -> Any:
            return build(PRESETS["vllm"], f"{path}:Mine", settings, num_blocks=100, max_model_len=64)

        for word in ("true", "YES", "on", "1"):
            config, policy, own = made(word="7", count="-2", share="1e3", on=word, max_num_seqs="5")
            assert policy.all == ("7", -2, 1000.0, True) and config.max_num_seqs == 5, policy.all
            assert own == {"word": "7", "count": -2, "share": 1000.0, "on": True}, own
        assert made(on="off")[1].all == ("w", 1, 0.5, False)
        for wrong in (
            {"config": "1"},
            {"self": "1"},
            {"count": "1_0"},
            {"share": "x"},
            {"on": "maybe"},
            {"nothing": ""},
        ):
            (key,) = wrong
            message = told(lambda settings=wrong: made(**settings))
            assert f"--set {key}" in message, message


ATTACKS = (names_are_looked_up_where_they_say, parameters_are_read_by_their_kind)


def named_attacks() -> list[Attack]:
    """All of them."""
    return [Attack(f"named: {attack.__name__}", attack) for attack in ATTACKS]
