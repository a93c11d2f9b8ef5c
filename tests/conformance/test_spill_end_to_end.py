"""Memory is short, images go through a `SpillStore` on a real small disk, and that disk goes wrong.

Victims fall back (disk, then host, then computed again); every client gets what it gets from an undisturbed run. The
device is a shadow one, so an output that is not that of the solo run fails the run itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from backends.sim.links import LinkSpec
from schedlab.device import CopyKind
from schedlab.events import Preempted
from schedlab.memory.spill import ImageHandle, SpillStore, Tier
from tests.conformance import harness
from tests.conformance.devices import DEVICES
from tests.conformance.made import crowd, made_case, readers
from tests.conformance.recorder import Recorder
from tests.conformance.scenario import Ask
from tests.conformance.spilling import BLOCK_IMAGE_BYTES, SpillingDevice
from tests.unit.spill_helpers import assert_nothing_left, file_of, small_disk

MIB = 1 << 20
# More blocks than any load here has in images at once.
DISK_BYTES = HOST_BYTES = 128 * (BLOCK_IMAGE_BYTES + 1024)
DISK_AND_HOST = {"preemption": "disk", "swap_disk_gib": 8, "swap_host_gib": 8}
DISK_ONLY = {"preemption": "disk", "swap_disk_gib": 8}
CROWD = crowd(40, seed=5)
TALK = readers(40, seed=6)

LOST = {"image lost", "restore failed"}

Chance = Callable[[CopyKind, ImageHandle | None], None]


def never(kind: CopyKind, image: ImageHandle | None) -> None:
    """Nothing goes wrong."""


class Reasons:
    """Why victims were computed again: for want of memory, or of their images."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def on_preempted(self, event: Preempted) -> None:
        self.seen.add(event.reason)


class Damage:
    """Every other image that is on disk is damaged just before it is read."""

    def __init__(self, directory: Path, act: Callable[[Path], None]) -> None:
        self._directory = directory
        self._act = act
        self.num_reads = 0

    def __call__(self, kind: CopyKind, image: ImageHandle | None) -> None:
        if kind is CopyKind.DISK_TO_HOST and image is not None:
            self.num_reads += 1
            if self.num_reads % 2:
                self._act(file_of(self._directory, image))


class Fills:
    """Another file takes all of the disk for eight of any sixteen copies."""

    def __init__(self, mount: Path) -> None:
        self._file = mount / "another"
        self._num_copies = 0

    def __call__(self, kind: CopyKind, image: ImageHandle | None) -> None:
        self._num_copies += 1
        if self._num_copies % 16 == 8:
            self._file.unlink(missing_ok=True)
        elif self._num_copies % 16 == 0 or self._num_copies == 1:
            fill(self._file)


def fill(file: Path) -> None:
    with file.open("wb", buffering=0) as out:
        try:
            while out.write(bytes(4096)):
                pass
        except OSError:
            return


def truncate(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "size=256k") as at:
        yield at


def _run(
    patch: pytest.MonkeyPatch, asks: tuple[Ask, ...], config: dict[str, Any], store: SpillStore, before: Chance
) -> tuple[Recorder, SpillingDevice, set[str]]:
    """The run, its device, and why images were lost."""
    made: list[SpillingDevice] = []

    def make(*parts: Any) -> SpillingDevice:
        made.append(SpillingDevice(*parts, store=store, link=LinkSpec(64 * MIB * 2000, 0), before=before))
        return made[0]

    patch.setitem(DEVICES, "spilling", make)
    case = made_case(asks, {"blocks": 16, "block_mib": 64}, {"max_num_seqs": 8, **config})
    reasons = Reasons()
    run = harness.run(case, leap=True, device="spilling", observers=[reasons])
    return run, made[0], reasons.seen & LOST


def _streams(run: Recorder) -> dict[str, tuple[int, str]]:
    return {name: (len(lived.token_ns), str(lived.reason)) for name, lived in run.lived.items()}


def _undisturbed(asks: tuple[Ask, ...], config: dict[str, Any]) -> dict[str, tuple[int, str]]:
    """With room for everyone."""
    return _streams(harness.run(made_case(asks, {}, config), leap=True))


@pytest.mark.parametrize(("asks", "cache"), [(CROWD, False), (TALK, True)], ids=["crowd", "talk"])
@pytest.mark.parametrize("damage", [None, truncate, flip, Path.unlink], ids=["none", "truncated", "flipped", "deleted"])
def test_what_is_damaged_on_disk_is_computed_again_and_no_client_notices(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    asks: tuple[Ask, ...],
    cache: bool,
    damage: Callable[[Path], None] | None,
) -> None:
    config = {**DISK_ONLY, "prefix_cache": cache}
    spill = tmp_path / "spill"
    before = Damage(spill, damage) if damage else never
    with SpillStore(HOST_BYTES, DISK_BYTES, spill) as store:
        run, device, lost = _run(monkeypatch, asks, config, store, before)
        assert_nothing_left(store, spill)
    assert run.swapped and run.restored
    expected = {"truncate": "CorruptImage", "flip": "CorruptImage", "unlink": "ImageVanished"}
    wanted = {(CopyKind.DISK_TO_HOST, expected[damage.__name__])} if damage else set()
    assert set(device.failures) == wanted
    assert lost == ({"restore failed"} if damage else set())
    assert _streams(run) == _undisturbed(asks, config)


@pytest.mark.parametrize("config", [DISK_AND_HOST, DISK_ONLY], ids=["host_behind", "no_host"])
def test_a_disk_that_fills_up_sends_victims_to_the_host_or_back_to_their_prompts(
    monkeypatch: pytest.MonkeyPatch, mount: Path, config: dict[str, Any]
) -> None:
    """With room on the host an image is lost only to whoever was on his way back when its write failed."""
    with SpillStore(HOST_BYTES, DISK_BYTES, mount / "spill") as store:
        run, device, lost = _run(monkeypatch, CROWD, config, store, Fills(mount))
        assert_nothing_left(store, mount / "spill")
    assert device.failures[CopyKind.HOST_TO_DISK, "DiskFull"]
    assert run.restored, "what the full disk refuses comes back from the host, and the rest from the disk"
    assert ("image lost" in lost) == (config is DISK_ONLY)
    assert _streams(run) == _undisturbed(CROWD, config)


def test_a_store_smaller_than_the_scheduler_believes_refuses_images_and_no_client_notices(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Four blocks' worth of host memory: larger victims fail on their first copy."""
    with SpillStore(4 * BLOCK_IMAGE_BYTES, DISK_BYTES, tmp_path / "spill") as store:
        run, device, lost = _run(monkeypatch, CROWD, DISK_AND_HOST, store, never)
        assert [store.usage(tier) for tier in Tier] == [0, 0]
    assert device.failures[CopyKind.DEVICE_TO_HOST, "TierFull"]
    assert lost and run.restored
    assert _streams(run) == _undisturbed(CROWD, DISK_AND_HOST)
