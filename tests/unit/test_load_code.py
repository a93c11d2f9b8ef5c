"""Code that a user names: found in modules and files, and what is said where it is not."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from schedlab.errors import UsageError
from schedlab.policies.load import load

CODE = """
from collections import OrderedDict

limit = 3


def helper():
    pass


class First:
    text = "{text}"


class Second:
    pass
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder; whatever is loaded meanwhile is unloaded, and nothing is left in the path."""
    monkeypatch.chdir(tmp_path)
    loaded, path = set(sys.modules), list(sys.path)
    yield tmp_path
    assert sys.path == path
    for name in set(sys.modules) - loaded:
        del sys.modules[name]


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("present", [False, True])
def test_modules_are_found_in_the_current_folder_and_packages_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch, present: bool
) -> None:
    """Whether the path has that folder already or not: it is as it was afterwards."""
    if present:
        monkeypatch.setattr(sys, "path", ["", *sys.path])
    written(folder / "schedlab_own_a.py", CODE.format(text="module"))
    written(folder / "schedlab_own_b" / "inner.py", CODE.format(text="inner"))
    before = list(sys.path)
    assert load("schedlab_own_a:First").text == "module"
    assert load("schedlab_own_b.inner:First").text == "inner"
    assert load("schedlab.policies.fifo:Fifo").name == "fifo"
    assert load("schedlab_own_a:limit") == 3
    assert sys.path == before
    if present:
        monkeypatch.undo()


def test_the_current_folder_is_looked_at_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(folder / "schedlab_own_j.py", CODE.format(text="mine"))
    written(folder / "elsewhere" / "schedlab_own_j.py", CODE.format(text="another's"))
    with monkeypatch.context() as patch:
        patch.setattr(sys, "path", [str(folder / "elsewhere"), *sys.path])
        assert load("schedlab_own_j:First").text == "mine"


def test_files_are_found_by_their_path_each_for_itself(folder: Path) -> None:
    one, other = (written(folder / name / "own_c.py", CODE.format(text=name)) for name in ("one", "other"))
    assert (load(f"{one}:First").text, load(f"{other}:First").text) == ("one", "other")
    assert load("one/own_c.py:First").text == "one"
    written(one, CODE.format(text="changed"))
    assert load(f"{one}:First").text == "changed"


def test_a_colon_in_a_path_is_part_of_it(folder: Path) -> None:
    assert load(f"{written(folder / 'a:b' / 'own_d.py', CODE.format(text='colon'))}:First").text == "colon"


@pytest.mark.parametrize("place", ["nowhere.py", "folder.py", "deep/nowhere.py"])
def test_a_file_that_is_none_is_named(folder: Path, place: str) -> None:
    (folder / "folder.py").mkdir()
    with pytest.raises(UsageError, match=f"^{place}: no such file; give file.py:Class or module:Class$"):
        load(f"{place}:First")


@pytest.mark.parametrize("place", ["schedlab_no_such", "schedlab_no_such.inner", "schedlab.policies.no_such"])
def test_a_module_that_is_none_is_named(folder: Path, place: str) -> None:
    told = f"^no module '{place}'; run where it can be imported, or give file.py:Class$"
    with pytest.raises(UsageError, match=told):
        load(f"{place}:First")


def test_a_module_that_another_one_lacks_is_told_as_it_is(folder: Path) -> None:
    written(folder / "schedlab_own_e.py", "import schedlab_no_such_either\n")
    with pytest.raises(ModuleNotFoundError) as error:
        load("schedlab_own_e:First")
    assert error.value.name == "schedlab_no_such_either"
    written(folder / "schedlab_own_f.py", "raise ModuleNotFoundError('without a name')\n")
    with pytest.raises(ModuleNotFoundError, match="without a name"):
        load("schedlab_own_f:First")


@pytest.mark.parametrize("place", ["own_g.py", "schedlab_own_g"])
def test_a_name_that_is_not_there_is_refused_with_the_classes_that_are(folder: Path, place: str) -> None:
    for name in ("own_g.py", "schedlab_own_g.py"):
        written(folder / name, CODE.format(text=""))
    told = f"^{place} has no 'Third'; its classes: First, Second$"
    with pytest.raises(UsageError, match=told):
        load(f"{place}:Third")


def test_a_file_alone_is_refused_with_its_classes(folder: Path) -> None:
    written(folder / "own_i.py", CODE.format(text=""))
    with pytest.raises(UsageError, match=r"^own_i.py names no class; its classes: First, Second$"):
        load("own_i.py")


def test_a_module_without_classes_says_so(folder: Path) -> None:
    written(folder / "own_h.py", "limit = 3\n")
    with pytest.raises(UsageError, match=r"^own_h.py has no 'First'; its classes: none$"):
        load("own_h.py:First")


def test_errors_of_a_file_come_out_as_they_are(folder: Path) -> None:
    written(folder / "own_i.py", "1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        load("own_i.py:First")
