"""What was put comes back bit by bit, from either tier, and any reader of safetensors can read it."""

from __future__ import annotations

import array
import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import safetensors
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schedlab.errors import UsageError
from schedlab.memory.spill import ImageHeader, SpillStore, TensorBytes, Tier
from tests.unit.spill_helpers import bits, file_of, header, images_in, kv

MIB = 1 << 20
ITEM_BYTES = {"BOOL": 1, "F8_E4M3": 1, "U8": 1, "BF16": 2, "F16": 2, "F32": 4, "I64": 8}

TENSORS = st.dictionaries(
    st.text(min_size=1, max_size=8).filter(lambda name: name != "__metadata__"),
    st.sampled_from(sorted(ITEM_BYTES)).flatmap(
        lambda dtype: st.lists(st.integers(0, 4), max_size=3).flatmap(lambda shape: tensors_of(dtype, shape))
    ),
    max_size=5,
)


def tensors_of(dtype: str, shape: list[int]) -> st.SearchStrategy[TensorBytes]:
    size = ITEM_BYTES[dtype]
    for length in shape:
        size *= length
    return st.binary(min_size=size, max_size=size).map(lambda data: TensorBytes(dtype, tuple(shape), data))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tensors=TENSORS, sampler=st.dictionaries(st.text(), JSON, max_size=4), first=st.sampled_from(list(Tier)))
def test_any_image_comes_back_bit_by_bit_from_either_tier_and_through_moves(
    tmp_path: Path, tensors: dict[str, TensorBytes], sampler: dict[str, Any], first: Tier
) -> None:
    with SpillStore(MIB, MIB, tmp_path / "spill") as store:
        image = store.put(first, replace(header(), sampler=sampler), tensors)
        for tier in (first, Tier.DISK, Tier.HOST, Tier.DISK):
            store.move(image, tier)
            assert store.tier(image) is tier
            found, found_tensors = store.get(image)
            assert found == replace(header(), sampler=sampler, image_id=image.image_id)
            assert bits(found_tensors) == bits(tensors)


@pytest.mark.parametrize("tier", list(Tier))
def test_nothing_a_sequence_needs_is_lost(tmp_path: Path, tier: Tier) -> None:
    with SpillStore(MIB, MIB, tmp_path / "spill") as store:
        known, unknown = header(), header(tokens=6)
        images = [store.put(tier, each, kv()) for each in (known, unknown)]
        for image, each in zip(images, (known, unknown), strict=True):
            found, _ = store.get(image)
            assert replace(found, image_id=each.image_id) == each
            assert repr(found.sampler) == repr(each.sampler)


def test_another_reader_of_safetensors_reads_the_file(tmp_path: Path) -> None:
    with SpillStore(0, MIB, tmp_path / "spill") as store:
        tensors = {**kv(), "state": TensorBytes("F32", (3,), array.array("f", [1.5, -2.0, 0.25]).tobytes())}
        image = store.put(Tier.DISK, header(), tensors)
        path = file_of(tmp_path / "spill", image)
        content = path.read_bytes()
        read = dict(safetensors.deserialize(content))  # type: ignore[no-untyped-call]
        assert {
            name: (each["dtype"], tuple(each["shape"]), bytes(each["data"])) for name, each in read.items()
        } == bits(tensors)
        with safetensors.safe_open(path, framework="numpy") as opened:
            metadata = opened.metadata()
            assert opened.get_tensor("state").tolist() == [1.5, -2.0, 0.25]
        assert ImageHeader.from_json(metadata["schedlab_image"]) == replace(header(), image_id=image.image_id)
        at = content.index(metadata["sha256"].encode())
        assert hashlib.sha256(content[:at] + content[at + 64 :]).hexdigest() == metadata["sha256"] == image.checksum


def test_the_store_keeps_its_own_copy_and_hands_out_read_only_views(tmp_path: Path) -> None:
    with SpillStore(MIB, MIB, tmp_path / "spill") as store:
        for tier in Tier:
            data = bytearray(b"kv" * 8)
            image = store.put(tier, header(), {"k": TensorBytes("U8", (16,), data)})
            data[:] = bytes(16)
            found = store.get(image)[1]["k"].data
            assert bytes(found) == b"kv" * 8
            with pytest.raises(TypeError):
                found[0] = 1  # type: ignore[index]


def test_the_size_of_an_image_is_the_size_of_its_file(tmp_path: Path) -> None:
    with SpillStore(MIB, MIB, tmp_path / "spill") as store:
        image = store.put(Tier.HOST, header(), kv())
        assert store.usage(Tier.HOST) == image.size_bytes
        store.move(image, Tier.DISK)
        assert [store.usage(tier) for tier in Tier] == [0, image.size_bytes]
        assert file_of(tmp_path / "spill", image).stat().st_size == image.size_bytes


def test_ids_are_never_reused(tmp_path: Path) -> None:
    with SpillStore(MIB, MIB, tmp_path / "spill") as store:
        ids = []
        for tier in (Tier.HOST, Tier.DISK, Tier.HOST):
            image = store.put(tier, replace(header(), image_id=0), kv())
            ids.append(image.image_id)
            store.drop(image)
        assert ids == sorted(set(ids))


def test_the_directory_and_the_files_are_private(tmp_path: Path) -> None:
    with SpillStore(0, MIB, tmp_path / "spill") as store:
        image = store.put(Tier.DISK, header(), kv())
        assert (tmp_path / "spill").stat().st_mode & 0o777 == 0o700
        assert file_of(tmp_path / "spill", image).stat().st_mode & 0o777 == 0o600


DEEP: list[Any] = []
for _ in range(10_000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    "sampler",
    [{"bias": float("nan")}, {"window": (1, 2)}, {3: "a key that is no string"}, {"raw": b"bytes"}, {"deep": DEEP}],
)
def test_sampler_state_that_would_come_back_different_is_refused(tmp_path: Path, sampler: dict[Any, Any]) -> None:
    with SpillStore(MIB, MIB, tmp_path / "spill") as store:
        for tier in Tier:
            with pytest.raises(UsageError, match="image of r7: its header"):
                store.put(tier, replace(header(), sampler=sampler), kv())
            assert store.usage(tier) == 0
        assert images_in(tmp_path / "spill") == []


@pytest.mark.parametrize(
    "tensor",
    [
        TensorBytes("BF16", (2, 3), bytes(11)),
        TensorBytes("F4", (2,), bytes(1)),
        TensorBytes("U8", (-1, -4), bytes(4)),
        TensorBytes("U8", (4,), memoryview(bytes(8))[::2]),
    ],
)
def test_a_tensor_that_contradicts_itself_is_refused(tensor: TensorBytes) -> None:
    with SpillStore(MIB, 0) as store:
        with pytest.raises(UsageError, match="tensor layer0"):
            store.put(Tier.HOST, header(), {"layer0.k": tensor})
        assert store.usage(Tier.HOST) == 0


def test_a_header_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(UsageError, match=r"num_computed must be 0\.\.6"):
        replace(header(), num_computed=7)
    with pytest.raises(UsageError, match="blocks of 0 tokens"):
        replace(header(), block_size=0)
