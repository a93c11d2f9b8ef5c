"""Images to spill, a file system that is small, and a look at what a store left behind."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from schedlab.memory.spill import ImageHandle, ImageHeader, SpillStore, TensorBytes, Tier

SAMPLER = {
    "seed": 2**63 + 11,
    "output_index": 3,
    "stop": {"held": "…é😀</", "state": [0, 4, 4]},
    "penalty_window": [5, 5, 9],
    "temperature": 0.1 + 0.2,
    "logit_bias": {"17": -100.0},
    "grammar": None,
    "ignore_eos": False,
}


def header(request_id: str = "r7", tokens: tuple[int, ...] | int = (11, 12, 13, 5, 5, 9)) -> ImageHeader:
    """Three prompt tokens and three outputs, the newest of which is not computed."""
    return ImageHeader(
        request_id=request_id,
        tokens=tokens,
        num_computed=5,
        num_outputs=3,
        adapter="law-7b",
        block_size=4,
        dtype="BF16",
        num_blocks=2,
        sampler=SAMPLER,
    )


def kv(num_bytes: int = 4096, seed: int = 0) -> dict[str, TensorBytes]:
    """Keys and values of one layer, of random bits."""
    half = num_bytes // 2
    bits = random.Random(seed)
    return {name: TensorBytes("U8", (2, half // 2), bits.randbytes(half)) for name in ("layer0.k", "layer0.v")}


def bits(tensors: Mapping[str, TensorBytes]) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """What must be equal after a round trip."""
    return {name: (each.dtype, each.shape, bytes(each.data)) for name, each in tensors.items()}


def file_of(directory: Path, image: ImageHandle) -> Path:
    """Where an image of the disk tier lies."""
    return directory / f"schedlab-image-{image.image_id}.safetensors"


def images_in(directory: Path) -> list[str]:
    """Every file but the lock."""
    return sorted(each.name for each in directory.iterdir() if each.name != "schedlab-spill.lock")


def assert_nothing_left(store: SpillStore, directory: Path) -> None:
    """No file and no budget used."""
    assert images_in(directory) == []
    assert [store.usage(tier) for tier in Tier] == [0, 0]


@contextmanager
def small_disk(at: Path, options: str = "size=1m") -> Iterator[Path]:
    """A real tmpfs, or a skip that says why there is none."""
    at.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(at)]
    try:
        subprocess.run(mounting, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a tmpfs cannot be mounted here: {getattr(error, 'stderr', error)}")
    try:
        yield at
    finally:
        subprocess.run(["umount", "--lazy", str(at)], check=True)


def meanwhile(patch: pytest.MonkeyPatch, module: ModuleType, call: str, act: Callable[[], object]) -> None:
    """Do that once, just before the next use of a system call: as another thread or process might."""
    real = getattr(module, call)

    def acting(*args: object, **kwargs: object) -> object:
        patch.setattr(module, call, real)
        act()
        return real(*args, **kwargs)

    patch.setattr(module, call, acting)


@contextmanager
def without_write_permission(directory: Path) -> Iterator[None]:
    """Root becomes nobody for a while, since a mode does not bind it; anyone else loses the mode."""
    if os.geteuid() == 0:
        os.seteuid(65534)
        try:
            yield
        finally:
            os.seteuid(0)
    else:
        directory.chmod(0o500)
        try:
            yield
        finally:
            directory.chmod(0o700)


def in_another_process(code: str, *arguments: str) -> subprocess.Popen[str]:
    """Python code in a process of its own, its output to be read."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent.parent.parent,
    )
