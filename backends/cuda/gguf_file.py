"""A GGUF file's metadata and tensors. No count, length or offset in it is believed before the file bears it out."""

from __future__ import annotations

import mmap
import struct
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFValueType, dequantize
from gguf.quants import quant_shape_to_byte_shape
from torch import Tensor

from schedlab.errors import UsageError

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_DEFAULT_ALIGNMENT = 32
_MOST_DIMENSIONS = 4
# Far above every known vocabulary: what a damaged length can cost.
_MOST_VALUES = 1 << 22
_MOST_HEADER_BYTES = 1 << 28
_SCALARS = {
    GGUFValueType.UINT8: "<u1",
    GGUFValueType.INT8: "<i1",
    GGUFValueType.UINT16: "<u2",
    GGUFValueType.INT16: "<i2",
    GGUFValueType.UINT32: "<u4",
    GGUFValueType.INT32: "<i4",
    GGUFValueType.FLOAT32: "<f4",
    GGUFValueType.BOOL: "?",
    GGUFValueType.UINT64: "<u8",
    GGUFValueType.INT64: "<i8",
    GGUFValueType.FLOAT64: "<f8",
}
# Kept as they are; everything else becomes float32.
_PLAIN = {
    GGMLQuantizationType.F32: torch.float32,
    GGMLQuantizationType.F16: torch.float16,
    GGMLQuantizationType.BF16: torch.bfloat16,
}


class TensorPlace(NamedTuple):
    """Where a tensor lies: shape row-major, `first` its first byte in the file."""

    shape: tuple[int, ...]
    kind: GGMLQuantizationType
    first: int

    @property
    def byte_shape(self) -> tuple[int, ...]:
        """Shape of the stored bytes. Raises ValueError for rows that are no whole blocks."""
        shape: tuple[int, ...] = quant_shape_to_byte_shape(self.shape, self.kind)
        return shape

    @property
    def end(self) -> int:
        """The byte behind its last one."""
        return self.first + prod(self.byte_shape)


class GgufFile:
    """A file of version 2 or 3, little-endian, that is whole.

    Attributes:
        where: its path.
        fields: metadata by key; arrays are lists.
        places: where each tensor lies, by its name in the file.

    Raises UsageError naming the file and what is wrong with it.
    """

    def __init__(self, path: Path) -> None:
        self.where = str(path)
        try:
            with path.open("rb") as file:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
        except ValueError:
            raise UsageError(f"{path}: is truncated or no GGUF file: it is empty") from None
        header = _Header(self._data, self.where)
        self.fields = header.fields
        self.places = header.places

    def tensor(self, name: str, part: int | None = None) -> Tensor:
        """One tensor, or one of the matrices along its first dimension: float32, or 16 bits if it is stored so.

        Raises UsageError for a quantisation that cannot be read.
        """
        place = self.places[name]
        stored = np.frombuffer(self._data, np.uint8, place.end - place.first, place.first).reshape(place.byte_shape)
        if part is not None:
            stored = stored[part]
        if place.kind in _PLAIN:
            return torch.from_numpy(stored.copy()).view(_PLAIN[place.kind])
        try:
            return torch.from_numpy(dequantize(stored, place.kind))
        except NotImplementedError:
            raise UsageError(f"{self.where}: tensor {name!r} is {place.kind.name}, which cannot be read") from None


class _Header:
    """Reads the metadata and the table of tensors."""

    def __init__(self, data: mmap.mmap, where: str) -> None:
        self._data, self._where, self._at = data, where, 0
        num_tensors, num_fields = self._begin()
        self.fields: dict[str, Any] = {}
        for _ in range(num_fields):
            self._read_field()
        self._places: dict[str, TensorPlace] = {}
        for _ in range(num_tensors):
            self._read_place()
        self.places = self._moved_to_data()

    def _begin(self) -> tuple[int, int]:
        """Numbers of tensors and of fields."""
        if self._take(4) != _MAGIC:
            raise self._error("it does not begin with GGUF")
        version = self._whole("<I")
        if version not in _VERSIONS:
            is_swapped = int.from_bytes(version.to_bytes(4, "little"), "big") in _VERSIONS
            what = "it is big-endian; convert it to little-endian" if is_swapped else f"it has version {version}"
            raise self._error(f"{what} ({' and '.join(map(str, _VERSIONS))} can be read)")
        return self._whole("<Q"), self._whole("<Q")

    def _read_field(self) -> None:
        name = self._text()
        if name in self.fields:
            raise self._error(f"it has the field {name!r} twice")
        self.fields[name] = self._value(self._kind(name), name)

    def _read_place(self) -> None:
        name, num_dimensions = self._text(), self._whole("<I")
        if name in self._places:
            raise self._error(f"it has the tensor {name!r} twice")
        if not 1 <= num_dimensions <= _MOST_DIMENSIONS:
            raise self._error(f"tensor {name!r} has {num_dimensions} dimensions")
        shape = tuple(reversed([self._whole("<Q") for _ in range(num_dimensions)]))
        number, offset = self._whole("<I"), self._whole("<Q")
        try:
            place = TensorPlace(shape, GGMLQuantizationType(number), offset)
            block = GGML_QUANT_SIZES[place.kind][0]
        except (ValueError, KeyError):
            raise self._error(f"tensor {name!r} has the type number {number}, which is not known") from None
        if min(shape) < 1 or shape[-1] % block:
            raise self._error(f"tensor {name!r} has shape {list(shape)}, which {place.kind.name} cannot hold")
        self._places[name] = place

    def _moved_to_data(self) -> dict[str, TensorPlace]:
        """The table with offsets into the file, all of them inside it and apart."""
        alignment = self.fields.get("general.alignment", _DEFAULT_ALIGNMENT)
        if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
            raise self._error(f"general.alignment is {alignment!r}, no power of two")
        start = -(-self._at // alignment) * alignment
        places = {name: place._replace(first=start + place.first) for name, place in self._places.items()}
        before, free = "", start
        for name, place in sorted(places.items(), key=lambda item: item[1].first):
            if place.first < free:
                raise self._error(f"tensors {before!r} and {name!r} overlap")
            if place.end > len(self._data):
                raise self._error(f"tensor {name!r} ends at byte {place.end}, the file at {len(self._data)}")
            before, free = name, place.end
        return places

    def _value(self, kind: GGUFValueType, name: str) -> Any:
        if kind is GGUFValueType.STRING:
            return self._text()
        if kind is not GGUFValueType.ARRAY:
            return self._numbers(kind, 1)[0]
        kind, count = self._kind(name), self._whole("<Q")
        if kind is GGUFValueType.ARRAY or count > _MOST_VALUES:
            raise self._error(f"field {name!r} is a list of lists, or one of {count} values; that is too much")
        if kind is GGUFValueType.STRING:
            return [self._text() for _ in range(count)]
        return self._numbers(kind, count)

    def _numbers(self, kind: GGUFValueType, count: int) -> list[Any]:
        dtype = np.dtype(_SCALARS[kind])
        values: list[Any] = np.frombuffer(self._take(count * dtype.itemsize), dtype).tolist()
        return values

    def _kind(self, name: str) -> GGUFValueType:
        number = self._whole("<I")
        try:
            return GGUFValueType(number)
        except ValueError:
            raise self._error(f"field {name!r} has the type number {number}, which is not known") from None

    def _text(self) -> str:
        try:
            return self._take(self._whole("<Q")).decode()
        except UnicodeDecodeError:
            raise self._error(f"a text before byte {self._at} is no UTF-8") from None

    def _whole(self, form: str) -> int:
        value: int = struct.unpack(form, self._take(struct.calcsize(form)))[0]
        return value

    def _take(self, count: int) -> bytes:
        end = self._at + count
        if end > min(len(self._data), _MOST_HEADER_BYTES):
            raise self._error(f"its header claims {count} bytes from byte {self._at} on, which it does not have")
        taken, self._at = self._data[self._at : end], end
        return taken

    def _error(self, problem: str) -> UsageError:
        return UsageError(f"{self._where}: is truncated or no GGUF file: {problem}")
