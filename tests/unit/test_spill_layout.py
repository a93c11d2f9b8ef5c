"""The bytes of an image's file, read by rules of their own; and what can be no image, to the word."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from math import prod
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedlab.errors import UsageError
from schedlab.memory.spill import CorruptImage, ImageHandle, ImageHeader, TensorBytes, codec
from schedlab.memory.spill.codec import decode, lay_out, verify
from tests.unit.spill_helpers import bits, header, kv

ITEM_BYTES = dict(
    dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0"), 1),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 2),
    **dict.fromkeys(("U32", "I32", "F32"), 4),
    **dict.fromkeys(("U64", "I64", "F64"), 8),
)


@st.composite
def tensors(draw: st.DrawFn) -> dict[str, TensorBytes]:
    """Some of any type and shape, none of a shape with bytes, or no dimension at all."""
    found = {}
    for name in draw(st.permutations(("a", "b", "k.0", "v.0", "é", "Z")))[: draw(st.integers(0, 6))]:
        dtype = draw(st.sampled_from(sorted(ITEM_BYTES)))
        shape = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
        data = Random(draw(st.integers(0, 99))).randbytes(prod(shape) * ITEM_BYTES[dtype])
        found[name] = TensorBytes(dtype, shape, draw(st.sampled_from((bytes, bytearray, memoryview)))(data))
    return found


def sealed(of: ImageHeader, content: dict[str, TensorBytes]) -> tuple[ImageHandle, bytes]:
    image, parts = lay_out(of, content).seal()
    return image, b"".join(parts)


@given(content=tensors(), image_id=st.integers(0, 10**6), tokens=st.sampled_from((6, (1, 2, 3, 4, 5, 6))))
@settings(max_examples=80, derandomize=True, deadline=None, database=None)
def test_a_file_is_laid_out_as_any_reader_expects(
    content: dict[str, TensorBytes], image_id: int, tokens: int | tuple[int, ...]
) -> None:
    of = replace(header(tokens=tokens), image_id=image_id)
    image, file = sealed(of, content)
    start = 8 + int.from_bytes(file[:8], "little")
    assert start % 8 == 0 and start - 8 - len(file[8:start].rstrip(b" ")) < 8, "the tensors begin at the next 8 bytes"
    index: dict[str, Any] = json.loads(file[8:start])
    metadata = index.pop("__metadata__")
    assert set(metadata) == {"sha256", "schedlab_image"} and set(index) == set(content)
    assert list(index) == sorted(content, key=lambda name: (-ITEM_BYTES[content[name].dtype], name))
    end = 0
    for name, entry in index.items():
        first, last = entry["data_offsets"]
        assert first == end and first % ITEM_BYTES[entry["dtype"]] == 0, "no gap, and each is aligned"
        assert (entry["dtype"], tuple(entry["shape"])) == (content[name].dtype, content[name].shape)
        assert file[start + first : start + last] == bytes(content[name].data)
        end = last
    assert len(file) == start + end == image.size_bytes
    at = file.index(metadata["sha256"].encode())
    assert hashlib.sha256(file[:at] + file[at + 64 :]).hexdigest() == metadata["sha256"] == image.checksum
    assert image == ImageHandle(image_id, of.request_id, len(file), image.checksum)
    verify(memoryview(file), image)
    found, read = decode(memoryview(bytearray(file)))
    assert found == of and bits(read) == bits(content)
    assert all(memoryview(each.data).readonly for each in read.values())


def test_what_was_changed_or_is_another_is_told_apart() -> None:
    image, file = sealed(header(), kv(64))
    other, others = sealed(header("r8"), kv(64, 1))
    for at in range(len(file)):
        damaged = bytearray(file)
        damaged[at] ^= 1 << at % 8
        with pytest.raises(CorruptImage, match=r"^image -1 of r7 is damaged: its checksum does not hold$"):
            verify(memoryview(damaged), image)
    with pytest.raises(CorruptImage, match=r"^in place of image -1 of r7 lies another image$"):
        verify(memoryview(others), image)
    verify(memoryview(others), other)


def test_a_tensor_that_is_no_such_tensor_is_refused() -> None:
    types = ", ".join(ITEM_BYTES)
    strided = memoryview(bytes(8))[::2]
    for name, tensor, told in (
        ("k", TensorBytes("F4", (2,), b"1"), f"tensor k of type F4 cannot be kept; types: {types}"),
        (
            "__metadata__",
            TensorBytes("U8", (1,), b"1"),
            f"tensor __metadata__ of type U8 cannot be kept; types: {types}",
        ),
        ("k", TensorBytes("BF16", (2, 3), bytes(11)), "tensor k: BF16 [2, 3] takes 12 dense bytes, got 11"),
        ("k", TensorBytes("F64", (), bytes(1)), "tensor k: F64 [] takes 8 dense bytes, got 1"),
        ("k", TensorBytes("U8", (-1, -1, 2), bytes(2)), "tensor k: U8 [-1, -1, 2] takes 2 dense bytes, got 2"),
        ("k", TensorBytes("U8", (4,), strided), "tensor k: U8 [4] takes 4 dense bytes, got 4"),
    ):
        with pytest.raises(UsageError) as error:
            lay_out(header(), {"fine": TensorBytes("U8", (0,), b""), name: tensor})
        assert str(error.value) == told


def test_a_view_of_any_item_and_shape_is_taken_byte_by_byte() -> None:
    data = memoryview(bytes(range(16))).cast("I", (2, 2))
    _, file = sealed(header(), {"k": TensorBytes("U32", (2, 2), data)})
    assert file.endswith(bytes(range(16)))


def test_a_header_longer_than_a_reader_takes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    length = int.from_bytes(sealed(header(), kv())[1][:8], "little")
    monkeypatch.setattr(codec, "MAX_HEADER_BYTES", length)
    lay_out(header(), kv())
    monkeypatch.setattr(codec, "MAX_HEADER_BYTES", length - 1)
    with pytest.raises(UsageError, match=f"^image of r7: a header of {length} bytes, at most {length - 1}$"):
        lay_out(header(), kv())


@pytest.mark.parametrize("field", ["num_computed", "num_outputs"])
@pytest.mark.parametrize("tokens", [6, 0, (1, 2, 3, 4, 5, 6), ()])
def test_no_more_is_computed_or_answered_than_is_known(field: str, tokens: int | tuple[int, ...]) -> None:
    known = tokens if isinstance(tokens, int) else len(tokens)
    fields: dict[str, Any] = {"tokens": tokens, "num_computed": 0, "num_outputs": 0}
    for value in (0, known):
        assert getattr(replace(header(), **{**fields, field: value}), field) == value
    for value in (-1, known + 1):
        with pytest.raises(UsageError, match=rf"^image of r7: {field} must be 0..{known}, got {value}$"):
            replace(header(), **{**fields, field: value})


def test_blocks_have_a_size_and_may_be_none() -> None:
    for size, count in ((1, 0), (1, 5), (16, 0)):
        assert replace(header(), block_size=size, num_blocks=count).block_size == size
    for size, count in ((0, 1), (-1, 1), (1, -1)):
        with pytest.raises(UsageError, match=f"^image of r7: {count} blocks of {size} tokens$"):
            replace(header(), block_size=size, num_blocks=count)


def test_a_header_comes_back_as_it_was_or_is_refused() -> None:
    for tokens in (6, (1, 2, 3, 4, 5, 6)):
        of = replace(header(tokens=tokens), adapter=None, image_id=5)
        assert ImageHeader.from_json(of.to_json()) == of
        assert " " not in of.to_json(), "nothing that the file need not hold"
        assert type(ImageHeader.from_json(of.to_json()).tokens) is type(tokens)
    assert header().image_id == -1 and replace(header(), sampler={}).sampler == {}
    changed: tuple[dict[Any, Any], ...] = ({"window": (1, 2)}, {1: 2}, {"deep": [{"x": ()}]})
    for sampler in changed:
        told = "^image of r7: its header does not survive JSON; use lists and string keys$"
        with pytest.raises(UsageError, match=told):
            replace(header(), sampler=sampler).to_json()
    for value in (float("nan"), float("inf"), b"raw", {1, 2}):
        with pytest.raises(UsageError, match=r"^image of r7: its header is not JSON: "):
            replace(header(), sampler={"x": value}).to_json()
