"""Wrong versions of a function, put in its place while a test runs."""

from __future__ import annotations
import __future__

import ast
import inspect
from collections.abc import Callable
from textwrap import dedent
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import pytest

Patch = pytest.MonkeyPatch
Change = Callable[[Patch], None]


class Mutant(NamedTuple):
    """One wrong version.

    Attributes:
        wrong: what it does that it should not.
        defect: the number of the original's defect (scheduler.md 17) that it brings back.
    """

    name: str
    wrong: str
    changes: tuple[Change, ...]
    defect: int | None = None

    def apply(self, patch: Patch) -> None:
        """Make the program wrong until `patch` is undone.

        Raises:
            StaleMutant: a function no longer has the text that the mutant changes.
        """
        for change in self.changes:
            try:
                change(patch)
            except StaleMutant as stale:
                raise StaleMutant(f"{self.name}: {stale}") from None


class StaleMutant(Exception):
    """The code has changed: the mutant must be stated anew."""


def mutant(name: str, wrong: str, *changes: Change, defect: int | None = None) -> Mutant:
    """A mutant of one change or more."""
    return Mutant(name, wrong, changes, defect)


def edit(target: Any, *texts: str) -> Change:
    """Replace texts that the source of `target` has once, (old, new, old, new, ...): wherever it was imported to."""

    def change(patch: Patch) -> None:
        function = plain_function(target)
        source = dedent(inspect.getsource(function))
        for old, new in zip(texts[::2], texts[1::2], strict=True):
            if source.count(old) != 1:
                count = source.count(old)
                raise StaleMutant(f"{function.__qualname__} has {old!r} {count} times, it should have it once")
            source = source.replace(old, new)
        patch.setattr(function, "__code__", compiled(function, ast.parse(source)))

    return change


def plain_function(target: Any) -> FunctionType:
    """The function behind a property or a decorator that kept it."""
    function = target.fget if isinstance(target, property) else inspect.unwrap(target)
    assert isinstance(function, FunctionType)
    return function


def compiled(function: FunctionType, tree: ast.Module) -> CodeType:
    """The code of the one function that `tree` defines, to be that of `function`."""
    (definition,) = tree.body
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    if function.__code__.co_freevars:
        # A method that calls super() closes over its class; nothing else is closed over at the top level.
        shell = ast.parse("def shell():\n __class__ = None")
        assert isinstance(shell.body[0], ast.FunctionDef)
        shell.body[0].body.append(definition)
        tree = shell
    flags = __future__.annotations.compiler_flag
    code = compile(ast.fix_missing_locations(tree), function.__code__.co_filename, "exec", flags, dont_inherit=True)
    return _find(code, function.__name__)


def _find(code: CodeType, name: str) -> CodeType:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            return constant if constant.co_name == name else _find(constant, name)
    raise AssertionError(f"no code of {name}")
