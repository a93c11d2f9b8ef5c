"""Keys of blocks of real tokens: equal keys mean equal tokens in the block and before it."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from hashlib import blake2b

_KEY_BYTES = 16


def chained_keys(tokens: Sequence[int], block_size: int) -> list[int]:
    """Keys of the full blocks: each is a hash (BLAKE2b, 128 bits) of the key before it and the block's tokens."""
    keys, digest = [], b""
    for end in range(block_size, len(tokens) + 1, block_size):
        block = array("q", tokens[end - block_size : end])
        digest = blake2b(digest + block.tobytes(), digest_size=_KEY_BYTES).digest()
        keys.append(int.from_bytes(digest, "little"))
    return keys
