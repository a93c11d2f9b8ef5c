"""An image as the bytes of a safetensors file, and back.

The file is: 8 bytes of header length, the JSON header, the tensors (github.com/huggingface/safetensors, "Format").
Written here rather than through that package because its writer builds the whole file in memory and its byte-level
reader drops the metadata. Metadata: "sha256", and the ImageHeader as JSON under "schedlab_image".

The checksum covers every byte of the file but its own 64 hex digits, which stand at a fixed place; so it is verified
before anything is parsed. It is SHA-256, not a CRC: an image of many gigabytes is past the length for which a CRC-32
promises anything, and an unnoticed fault becomes wrong output. One Xeon core does 1.2 GB/s (2.3 with zlib's CRC-32).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from schedlab.errors import UsageError
from schedlab.memory.spill.errors import CorruptImage
from schedlab.memory.spill.image import ImageHandle, ImageHeader, TensorBytes

METADATA = "__metadata__"
LENGTH_BYTES = 8
MAX_HEADER_BYTES = 100_000_000  # as the safetensors package's reader allows
BLANK_CHECKSUM = "0" * 64
CHECKSUM_START = LENGTH_BYTES + len(b'{"__metadata__":{"sha256":"')
CHECKSUM_STOP = CHECKSUM_START + len(BLANK_CHECKSUM)
ITEM_BYTES = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0"), 1),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 2),
    **dict.fromkeys(("U32", "I32", "F32"), 4),
    **dict.fromkeys(("U64", "I64", "F64"), 8),
}


@dataclass(frozen=True, slots=True)
class Layout:
    """An image laid out as a file, its checksum still blank. *chunks* are views of the caller's tensors."""

    header: ImageHeader
    prefix: bytes
    chunks: tuple[memoryview, ...]
    size_bytes: int

    def seal(self) -> tuple[ImageHandle, list[bytes | memoryview]]:
        """Reads every byte once; the handle, and the parts of the file in order."""
        checksum = _checksum([self.prefix[:CHECKSUM_START], self.prefix[CHECKSUM_STOP:], *self.chunks])
        prefix = self.prefix[:CHECKSUM_START] + checksum.encode() + self.prefix[CHECKSUM_STOP:]
        handle = ImageHandle(self.header.image_id, self.header.request_id, self.size_bytes, checksum)
        return handle, [prefix, *self.chunks]


def lay_out(header: ImageHeader, tensors: Mapping[str, TensorBytes]) -> Layout:
    """Tensors go by item size, largest first, then name, so that each is aligned; the first begins at 8 bytes.

    Raises UsageError for a tensor whose type is unknown or whose bytes are not those of its shape.
    """
    index: dict[str, Any] = {METADATA: {"sha256": BLANK_CHECKSUM, "schedlab_image": header.to_json()}}
    chunks = {name: _chunk(name, tensor) for name, tensor in tensors.items()}
    end = 0
    for name in sorted(tensors, key=lambda name: (-ITEM_BYTES[tensors[name].dtype], name)):
        start, end = end, end + chunks[name].nbytes
        index[name] = {"dtype": tensors[name].dtype, "shape": list(tensors[name].shape), "data_offsets": [start, end]}
    text = json.dumps(index, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_HEADER_BYTES:
        raise UsageError(f"image of {header.request_id}: a header of {len(text)} bytes, at most {MAX_HEADER_BYTES}")
    prefix = len(text).to_bytes(LENGTH_BYTES, "little") + text
    ordered = tuple(chunks[name] for name in index if name != METADATA)
    return Layout(header, prefix, ordered, len(prefix) + end)


def verify(content: memoryview, image: ImageHandle) -> None:
    """Raises CorruptImage unless *content*, of the image's size, is that image bit by bit."""
    stated = bytes(content[CHECKSUM_START:CHECKSUM_STOP])
    if _checksum([content[:CHECKSUM_START], content[CHECKSUM_STOP:]]).encode() != stated:
        raise CorruptImage(f"image {image.image_id} of {image.request_id} is damaged: its checksum does not hold")
    if stated != image.checksum.encode():
        raise CorruptImage(f"in place of image {image.image_id} of {image.request_id} lies another image")


def decode(content: memoryview) -> tuple[ImageHeader, dict[str, TensorBytes]]:
    """Header and tensors of content that was verified; the tensors are views of it."""
    data_start = LENGTH_BYTES + int.from_bytes(content[:LENGTH_BYTES], "little")
    index = json.loads(bytes(content[LENGTH_BYTES:data_start]))
    header = ImageHeader.from_json(index.pop(METADATA)["schedlab_image"])
    data = content[data_start:].toreadonly()
    return header, {
        name: TensorBytes(entry["dtype"], tuple(entry["shape"]), data[slice(*entry["data_offsets"])])
        for name, entry in index.items()
    }


def _chunk(name: str, tensor: TensorBytes) -> memoryview:
    if name == METADATA or tensor.dtype not in ITEM_BYTES:
        raise UsageError(f"tensor {name} of type {tensor.dtype} cannot be kept; types: {', '.join(ITEM_BYTES)}")
    view = memoryview(tensor.data)
    needed_bytes = ITEM_BYTES[tensor.dtype] * prod(tensor.shape)
    if view.nbytes != needed_bytes or not view.c_contiguous or min(tensor.shape, default=0) < 0:
        raise UsageError(
            f"tensor {name}: {tensor.dtype} {list(tensor.shape)} takes {needed_bytes} dense bytes, got {view.nbytes}"
        )
    return view.cast("B") if view.nbytes else memoryview(b"")


def _checksum(parts: Iterable[bytes | memoryview]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()
