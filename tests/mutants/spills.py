"""Attacks on the store of images: round trips, budgets, damage, failing writes, other holders."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from schedlab.errors import SchedlabError, UsageError
from schedlab.memory.spill import CorruptImage, ImageVanished, ShortWrite, SpillStore, SpillUnavailable, Tier, TierFull
from schedlab.memory.spill.codec import ITEM_BYTES, decode, lay_out
from schedlab.memory.spill.errors import SpillError
from schedlab.memory.spill.image import TensorBytes
from tests.mutants.attack import Attack
from tests.unit.spill_helpers import bits, file_of, header, images_in, kv, meanwhile

ROOM = 1 << 20


@contextmanager
def opened(host_bytes: int = ROOM, disk_bytes: int = ROOM) -> Iterator[tuple[SpillStore, Path]]:
    """A store in a directory of its own."""
    with tempfile.TemporaryDirectory() as folder, SpillStore(host_bytes, disk_bytes, Path(folder) / "spill") as store:
        yield store, Path(folder) / "spill"


def refused(error: type[SchedlabError], act: Callable[[], Any]) -> None:
    """`act` raises that error."""
    try:
        act()
    except error:
        return
    raise AssertionError(f"no {error.__name__}")


def everything_comes_back() -> None:
    """Header and bits, from either tier and through moves, with the budgets right at each moment."""
    with opened() as (store, at):
        images = [store.put(tier, header(f"r{n}"), kv(seed=n)) for n, tier in enumerate((Tier.HOST, Tier.DISK) * 2)]
        assert len({image.image_id for image in images}) == 4, "image ids are unique"
        for order in ((Tier.DISK, Tier.HOST), (Tier.HOST, Tier.DISK)):
            for n, image in enumerate(images):
                store.move(image, order[n % 2])
                found, tensors = store.get(image)
                assert replace(found, image_id=-1) == header(f"r{n}"), "the header comes back"
                assert bits(tensors) == bits(kv(seed=n)), "the bits come back"
                assert all(memoryview(each.data).readonly for each in tensors.values()), "what is read is read-only"
            for tier in Tier:
                held = [image for image in images if store.tier(image) is tier]
                assert store.usage(tier) == sum(image.size_bytes for image in held), "usage is what is held"
            assert len(images_in(at)) == sum(store.tier(image) is Tier.DISK for image in images), "one file an image"
        for image in (*images, *images):
            store.drop(image)
        assert images_in(at) == [] and not any(store.usage(tier) for tier in Tier), "nothing is left"


def budgets_hold() -> None:
    """What just fits is taken, a byte more is not, and a refusal leaves nothing."""
    with opened() as (store, _):
        size = store.put(Tier.HOST, header(), kv()).size_bytes
    for tier in Tier:
        with opened(size if tier is Tier.HOST else ROOM, size if tier is Tier.DISK else ROOM) as (store, at):
            kept = store.put(tier, header(), kv())
            refused(TierFull, partial(store.put, tier, header(), kv()))
            other = next(one for one in Tier if one is not tier)
            moving = store.put(other, header(), kv())
            refused(TierFull, partial(store.move, moving, tier))
            assert store.usage(tier) == store.usage(other) == size and store.tier(moving) is other
            store.drop(replace(kept, checksum="0" * 64))
            assert store.usage(tier) == size, "another handle drops nothing"
            store.drop(kept)
            assert store.room(tier) == size and len(images_in(at)) == (other is Tier.DISK)


def damage_is_noticed() -> None:
    """A flipped bit anywhere, a cut file, another image in its place, a link, nothing."""
    with opened() as (store, at):
        image, other = (store.put(Tier.DISK, header(), kv(seed=seed)) for seed in (1, 2))
        path, content = file_of(at, image), file_of(at, image).read_bytes()
        for place in (9, 100, len(content) - 1):
            damaged = bytearray(content)
            damaged[place] ^= 4
            path.write_bytes(damaged)
            refused(CorruptImage, lambda: store.get(image))
            refused(CorruptImage, lambda: store.move(image, Tier.HOST))
        for wrong in (content[:-1], content + b"\0", file_of(at, other).read_bytes()):
            path.write_bytes(wrong)
            refused(CorruptImage, lambda: store.get(image))
        path.write_bytes(content)
        assert bits(store.get(image)[1]) == bits(kv(seed=1))
        path.rename(at / "elsewhere")
        refused(ImageVanished, lambda: store.get(image))
        path.symlink_to(at / "elsewhere")
        refused(ImageVanished, lambda: store.get(image))


def failed_writes_leave_nothing() -> None:
    """A write that stops in the middle, that says less than it did, or in whose way something lies."""
    with opened() as (store, at), pytest.MonkeyPatch.context() as patch:
        write, fstat = os.write, os.fstat
        patch.setattr(os, "write", lambda fd, data: write(fd, data[:100]))
        image = store.put(Tier.DISK, header(), kv())
        assert bits(store.get(image)[1]) == bits(kv()), "short writes go on"
        store.drop(image)
        patch.setattr(os, "write", lambda fd, data: 0)
        refused(ShortWrite, lambda: store.put(Tier.DISK, header(), kv()))
        patch.setattr(os, "write", lambda fd, data: len(data))
        refused(ShortWrite, lambda: store.put(Tier.DISK, header(), kv()))
        patch.setattr(os, "write", write)
        assert os.fstat is fstat
        assert images_in(at) == [] and not store.usage(Tier.DISK), "nothing of a failed write is left"


def headers_survive_or_are_refused() -> None:
    """Values that JSON would change are no part of a header."""
    with opened() as (store, _):
        refused(UsageError, lambda: store.put(Tier.HOST, replace(header(), sampler={"window": (1, 2)}), kv()))
        refused(UsageError, lambda: store.put(Tier.HOST, replace(header(), sampler={"bias": {1: 2}}), kv()))


def headers_say_what_can_be() -> None:
    """The least and the most of each number, and one beyond."""
    known = 6
    for right in ({"num_computed": 0}, {"num_computed": known}, {"num_outputs": 0}, {"block_size": 1, "num_blocks": 0}):
        assert header(tokens=known) and replace(header(tokens=known), **right)
    for wrong in ({"num_computed": -1}, {"num_outputs": known + 1}, {"block_size": 0}, {"num_blocks": -1}):
        refused(UsageError, partial(replace, header(tokens=known), **wrong))


def tensors_are_aligned() -> None:
    """The largest items first, then by name; each where its items may begin, however long the header is."""
    types = {"a": "U8", "b": "F64", "c": "BF16", "d": "F32", "e": "U8", "f": "F64"}
    for length in range(9):
        tensors = {name: TensorBytes(dtype, (3,), bytes(3 * ITEM_BYTES[dtype])) for name, dtype in types.items()}
        layout = lay_out(header("r" * length), tensors)
        assert layout.size_bytes == len(layout.prefix) + sum(chunk.nbytes for chunk in layout.chunks)
        assert [chunk.nbytes // 3 for chunk in layout.chunks] == [8, 8, 4, 2, 1, 1], "the largest items come first"
        assert len(layout.prefix) % 8 == 0, f"the first tensor begins at byte {len(layout.prefix)}"
        found, content = decode(memoryview(layout.prefix + b"".join(layout.chunks)))
        assert found == header("r" * length) and bits(content) == bits(tensors)


def a_directory_has_one_holder() -> None:
    """It is private and locked; a start removes images of the dead and nothing else, an end removes its own."""
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder) / "spill"
        at.mkdir(0o700)
        (at / "notes.txt").write_text("mine")
        (at / "schedlab-image-3.safetensors").write_text("of the dead")
        (at / "schedlab-image-4.safetensors.tmp").write_text("of the dead")
        store = SpillStore(0, ROOM, at)
        assert images_in(at) == ["notes.txt"], "a start removes images of the dead only"
        refused(UsageError, lambda: SpillStore(0, ROOM, at))
        image = store.put(Tier.DISK, header(), kv())
        store.close()
        assert [each.name for each in at.iterdir()] == ["notes.txt"], "an end leaves nothing of its own"
        refused(SpillUnavailable, lambda: store.put(Tier.DISK, header(), kv()))
        refused(SpillError, lambda: store.get(image))
        at.chmod(0o755)
        refused(UsageError, lambda: SpillStore(0, ROOM, at))


def an_image_moves_once_at_a_time() -> None:
    """A second mover is refused while the first is at work; an image dropped in the middle leaves nothing."""
    with opened() as (store, at), pytest.MonkeyPatch.context() as patch:
        image = store.put(Tier.HOST, header(), kv())
        second = partial(refused, SpillUnavailable, lambda: store.move(image, Tier.HOST))
        store.move(image, Tier.DISK)
        meanwhile(patch, os, "readv", second)
        store.move(image, Tier.HOST)
        assert store.usage(Tier.HOST) == image.size_bytes and not store.usage(Tier.DISK)
        store.move(image, Tier.DISK)
        meanwhile(patch, os, "readv", lambda: store.drop(image))
        refused(ImageVanished, lambda: store.move(image, Tier.HOST))
        assert images_in(at) == [] and not any(store.usage(tier) for tier in Tier)


ATTACKS = (
    everything_comes_back,
    budgets_hold,
    damage_is_noticed,
    failed_writes_leave_nothing,
    headers_survive_or_are_refused,
    headers_say_what_can_be,
    tensors_are_aligned,
    a_directory_has_one_holder,
    an_image_moves_once_at_a_time,
)


def spill_attacks() -> list[Attack]:
    """All of them."""
    return [Attack(f"spill: {attack.__name__}", attack) for attack in ATTACKS]
