"""The cache of unpacked GGUF files: starts at once, a kill midway, a full disk, no place to write, changed files."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.torch_needed import torch  # isort: skip

from backends.cuda import gguf_folder
from backends.cuda.gguf_folder import as_folder
from schedlab.errors import UsageError
from tests.models.gguf_files import write_gguf
from tests.models.lab import load
from tests.models.tiny import saved

assert torch
CONVERT = "from pathlib import Path; import sys; from backends.cuda.gguf_folder import as_folder; "
CONVERT += "print(as_folder(Path(sys.argv[1])))"
# Stops at the first tensor that it has unpacked, until it is killed.
HALT = "import backends.cuda.gguf_folder as g, time; save = g.save_file; "
HALT += "g.save_file = lambda *given: (save(*given), print('half', flush=True), time.sleep(600)); "


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "schedlab" / "gguf"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved("qwen2", tmp_path_factory.mktemp("model"))


@pytest.fixture
def file(model: Path, tmp_path: Path) -> Path:
    return write_gguf(model, tmp_path / "tiny.gguf")


def start(program: str, file: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", program, str(file)], stdout=subprocess.PIPE, text=True)


def test_starts_at_the_same_time_share_one_conversion(file: Path, cache: Path) -> None:
    processes = [start(CONVERT, file) for _ in range(2)]
    folders = {process.communicate(timeout=300)[0].strip() for process in processes}
    assert [process.returncode for process in processes] == [0, 0]
    assert folders == {str(path) for path in cache.iterdir()} and len(folders) == 1
    assert load(file).spec.layers == 3


def test_a_kill_midway_leaves_nothing_that_is_used(file: Path, cache: Path) -> None:
    process = start(HALT + CONVERT, file)
    assert process.stdout is not None and process.stdout.readline() == "half\n"
    (half,) = cache.iterdir()
    assert half.suffix == ".part" and any(half.iterdir())
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=60)
    assert load(file).spec.layers == 3
    assert list(cache.iterdir()) == [as_folder(file)]


def test_another_conversion_is_waited_for_with_a_bound(
    file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = start(HALT + CONVERT, file)
    assert process.stdout is not None and process.stdout.readline() == "half\n"
    monkeypatch.setattr(gguf_folder, "_PATIENCE_S", 0.3)
    try:
        with pytest.raises(UsageError, match="another process converts a model there and does not finish"):
            as_folder(file)
    finally:
        process.kill()
        process.wait(timeout=60)


def test_a_full_disk_is_named_and_leaves_nothing(file: Path, cache: Path) -> None:
    """A limit on the size of files stands in for it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(UsageError, match=r"cannot be written .*; set XDG_CACHE_HOME to a folder with room"):
            as_folder(file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(cache.iterdir()) == []
    assert load(file).spec.layers == 3


def test_a_cache_that_cannot_be_made_is_named(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "taken").write_text("a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "taken"))
    with pytest.raises(UsageError, match=r"taken/schedlab/gguf/tiny-.*: cannot be written .*; set XDG_CACHE_HOME"):
        as_folder(file)


def test_a_converted_file_needs_no_place_to_write(file: Path, cache: Path) -> None:
    folder = as_folder(file)
    mode = cache.stat().st_mode
    cache.chmod(0o500)
    try:
        assert as_folder(file) == folder
    finally:
        cache.chmod(mode)


def test_what_a_file_had_become_before_goes_when_nobody_has_used_it_for_long(
    model: Path, file: Path, cache: Path, tmp_path: Path
) -> None:
    other = as_folder(write_gguf(model, tmp_path / "other.gguf"))
    before = as_folder(file)
    os.utime(file)
    after = as_folder(file)
    assert before.exists() and before != after, "somebody may still load it"
    for folder in (other, before):
        os.utime(folder / gguf_folder._SOURCE, (0, 0))
    assert as_folder(file) == after
    assert {path.name for path in cache.iterdir()} == {other.name, after.name}


def test_a_folder_that_is_used_again_is_no_old_one(file: Path, cache: Path) -> None:
    status = file.stat()
    folder = as_folder(file)
    os.utime(folder / gguf_folder._SOURCE, (0, 0))
    as_folder(file)
    assert (folder / gguf_folder._SOURCE).stat().st_mtime > status.st_mtime - 60


@pytest.mark.parametrize("keeps_time", [False, True])
def test_another_file_in_its_place_is_read_anew(model: Path, file: Path, cache: Path, keeps_time: bool) -> None:
    """Even one of the same length and, as an unpacked archive may have it, the same time."""
    before, status = load(file), file.stat()
    time.sleep(0.01)
    content = bytearray(file.read_bytes())
    content[-400:] = bytes(400)
    file.write_bytes(content)
    if keeps_time:
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert file.stat().st_size == status.st_size
    after = load(file)
    differ = [
        not torch.equal(getattr(one, name).panels, getattr(other, name).panels)
        for one, other in zip(before.weights.layers, after.weights.layers, strict=True)
        for name in ("qkv", "output")
    ]
    assert any(differ) or not torch.equal(before.weights.final_norm, after.weights.final_norm)


def test_a_file_that_changes_while_it_is_read_is_refused(
    file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = gguf_folder.save_file

    def change(*given: object) -> None:
        save(*given)  # type: ignore[arg-type]
        os.utime(file)

    monkeypatch.setattr(gguf_folder, "save_file", change)
    with pytest.raises(UsageError, match=r"tiny\.gguf: changed while it was read"):
        as_folder(file)
    assert list(cache.iterdir()) == []
