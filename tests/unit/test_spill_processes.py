"""One directory and several processes: killed in mid-write, alive at the same time, leaving and taking over."""

from __future__ import annotations

import fcntl
import os
import signal
from pathlib import Path
from types import ModuleType

import pytest

from schedlab.errors import UsageError
from schedlab.memory.spill import SpillStore, Tier
from tests.unit.spill_helpers import (
    assert_nothing_left,
    bits,
    file_of,
    header,
    images_in,
    in_another_process,
    kv,
    meanwhile,
)

MIB = 1 << 20

# Argument 2 names the system call at which it says "here" and waits for its end.
WRITER = """
import os, sys, time
from pathlib import Path
from schedlab.memory.spill import SpillStore, Tier
from tests.unit.spill_helpers import header, kv

store = SpillStore(0, 1 << 20, Path(sys.argv[1]))
store.put(Tier.DISK, header("whole"), kv())

def stop(*args, **kwargs):
    print("here", flush=True)
    time.sleep(600)

setattr(os, sys.argv[2], stop)
store.put(Tier.DISK, header("half"), kv())
"""

CONTENDER = """
import sys, time
from pathlib import Path
from schedlab.errors import UsageError
from schedlab.memory.spill import SpillStore, Tier
from tests.unit.spill_helpers import bits, header, kv

held = 0
while held < 20:
    try:
        with SpillStore(0, 1 << 20, Path(sys.argv[1])) as store:
            image = store.put(Tier.DISK, header(), kv())
            assert bits(store.get(image)[1]) == bits(kv())
            held += 1
    except UsageError as error:
        assert "held by" in str(error) or "all the time" in str(error), error
        time.sleep(0.001)
"""


def killed_writer(directory: Path, at: str) -> list[str]:
    """The files left by a process that was killed at that call."""
    writer = in_another_process(WRITER, str(directory), at)
    assert writer.stdout is not None
    try:
        assert writer.stdout.readline() == "here\n"
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
    return images_in(directory)


@pytest.mark.parametrize(
    ("at", "left"),
    [
        ("write", ["schedlab-image-0.safetensors", "schedlab-image-1.safetensors.tmp"]),
        ("rename", ["schedlab-image-0.safetensors", "schedlab-image-1.safetensors.tmp"]),
    ],
)
def test_after_a_kill_in_mid_write_a_new_store_starts_clean(tmp_path: Path, at: str, left: list[str]) -> None:
    directory = tmp_path / "spill"
    assert killed_writer(directory, at) == left
    with SpillStore(0, MIB, directory) as store:
        assert_nothing_left(store, directory)
        image = store.put(Tier.DISK, header("new"), kv(seed=5))
        assert store.get(image)[0].request_id == "new"
        assert images_in(directory) == [file_of(directory, image).name]
    assert not directory.exists()


def test_an_unfinished_file_never_has_the_name_of_an_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "spill"
    seen = []
    real_write = os.write

    def watched(fd: int, data: memoryview) -> int:
        seen.append(images_in(directory))
        return real_write(fd, data)

    with SpillStore(0, MIB, directory) as store:
        monkeypatch.setattr(os, "write", watched)
        store.put(Tier.DISK, header(), kv())
        assert len(seen) >= 3
        assert all(names == ["schedlab-image-0.safetensors.tmp"] for names in seen)
        assert images_in(directory) == ["schedlab-image-0.safetensors"]


def test_a_directory_held_by_a_live_process_is_refused_and_untouched(tmp_path: Path) -> None:
    directory = tmp_path / "spill"
    writer = in_another_process(WRITER, str(directory), "rename")
    assert writer.stdout is not None
    try:
        assert writer.stdout.readline() == "here\n"
        before = images_in(directory)
        with pytest.raises(
            UsageError, match=f"{directory} is held by process {writer.pid}: .* its own spill directory"
        ):
            SpillStore(0, MIB, directory)
        assert images_in(directory) == before
        assert len(before) == 2
    finally:
        writer.kill()
        writer.communicate()
    SpillStore(0, MIB, directory).close()


def test_two_stores_of_one_process_exclude_each_other_too(tmp_path: Path) -> None:
    with SpillStore(0, MIB, tmp_path / "spill") as store:
        image = store.put(Tier.DISK, header(), kv())
        with pytest.raises(UsageError, match=f"held by process {os.getpid()}"):
            SpillStore(0, MIB, tmp_path / "spill")
        assert bits(store.get(image)[1]) == bits(kv())


@pytest.mark.parametrize(("module", "call"), [(os, "open"), (fcntl, "flock")])
def test_a_lock_that_its_holder_deleted_at_that_moment_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: ModuleType, call: str
) -> None:
    leaving = SpillStore(0, MIB, tmp_path / "spill")
    leaving.put(Tier.DISK, header(), kv())
    meanwhile(monkeypatch, module, call, leaving.close)
    with SpillStore(0, MIB, tmp_path / "spill") as store:
        assert_nothing_left(store, tmp_path / "spill")
        with pytest.raises(UsageError, match="held by"):
            SpillStore(0, MIB, tmp_path / "spill")


def test_a_directory_that_is_never_free_is_refused_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def vanishing(*args: object, **kwargs: object) -> None:
        raise FileNotFoundError

    monkeypatch.setattr(fcntl, "flock", vanishing)
    with pytest.raises(UsageError, match="take and leave this spill directory all the time"):
        SpillStore(0, MIB, tmp_path / "spill")


def test_processes_that_take_and_leave_one_directory_never_share_it(tmp_path: Path) -> None:
    contenders = [in_another_process(CONTENDER, str(tmp_path / "spill")) for _ in range(3)]
    for contender in contenders:
        _, err = contender.communicate(timeout=120)
        assert contender.returncode == 0, err
    assert not (tmp_path / "spill").exists()
