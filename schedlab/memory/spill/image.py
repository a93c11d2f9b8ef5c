"""What is kept of a swapped-out sequence besides its tensors, and the handle by which its image is found again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from schedlab.errors import UsageError

UNASSIGNED = -1


@dataclass(frozen=True, slots=True)
class TensorBytes:
    """One tensor as little-endian row-major bytes. *dtype* is a safetensors name ("BF16", "F8_E4M3", "U8", ...)."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class ImageHandle:
    """Names one image in the store that gave it. *size_bytes* is what it takes of a tier's budget."""

    image_id: int
    request_id: str
    size_bytes: int
    checksum: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageHeader:
    """Everything that a sequence needs, besides its tensors, to go on as if it had never left.

    *tokens* holds every known token (prompt and outputs), or their number where ids are unknown. *sampler* is the
    caller's own: seed, output index, stop matcher, penalty window, grammar, ...; plain JSON values, which come back
    equal or are refused. *image_id* is given by the store; what `put` finds in it is ignored.
    """

    request_id: str
    tokens: tuple[int, ...] | int
    num_computed: int
    num_outputs: int
    adapter: str | None
    block_size: int
    dtype: str
    num_blocks: int
    sampler: Mapping[str, Any] = field(default_factory=dict)
    image_id: int = UNASSIGNED

    def __post_init__(self) -> None:
        known = self.tokens if isinstance(self.tokens, int) else len(self.tokens)
        for name in ("num_computed", "num_outputs"):
            if not 0 <= getattr(self, name) <= known:
                raise UsageError(f"image of {self.request_id}: {name} must be 0..{known}, got {getattr(self, name)}")
        if self.block_size < 1 or self.num_blocks < 0:
            raise UsageError(f"image of {self.request_id}: {self.num_blocks} blocks of {self.block_size} tokens")

    def to_json(self) -> str:
        """Raises UsageError for a value that would not come back as it is (NaN, a tuple, a key that is no string)."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        try:
            text = json.dumps(values, separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise UsageError(f"image of {self.request_id}: its header is not JSON: {error}") from error
        if ImageHeader.from_json(text) != self:
            raise UsageError(f"image of {self.request_id}: its header does not survive JSON; use lists and string keys")
        return text

    @staticmethod
    def from_json(text: str) -> ImageHeader:
        """The inverse of `to_json`."""
        values = json.loads(text)
        if isinstance(values["tokens"], list):
            values["tokens"] = tuple(values["tokens"])
        return ImageHeader(**values)
