"""Texts that come and go in a pool, as sequences would hold them."""

from __future__ import annotations

from schedlab.memory.blocks import blocks_for
from schedlab.memory.prefix import CachingBlockPool
from tests.conformance.texts import Texts

TEXTS = Texts()


class Reader:
    """Takes and leaves blocks as a sequence with a text does."""

    def __init__(self, pool: CachingBlockPool, *pieces: tuple[str, int], block_size: int = 16) -> None:
        prompt = TEXTS.prompt(pieces, "")
        self.pool = pool
        self.keys = prompt.block_keys(block_size)
        self.hits = pool.lookup(self.keys, (prompt.num_tokens - 1) // block_size)
        pool.hold(self.hits)
        missing = blocks_for(prompt.num_tokens, block_size) - len(self.hits)
        self.table = self.hits + pool.allocate(missing)
        pool.publish(self.keys, self.table, len(self.hits), len(self.keys))

    def leave(self) -> None:
        self.pool.release(self.table)


def tokens_of(*tokens: int) -> list[tuple[str, int]]:
    return [(str(token), 1) for token in tokens]


def match(pool: CachingBlockPool, tokens: list[int], block_size: int = 1) -> list[int]:
    keys = TEXTS.prompt(tokens_of(*tokens), "").block_keys(block_size)
    return pool.lookup(keys, len(keys))


def insert(pool: CachingBlockPool, tokens: list[int], block_size: int = 1) -> tuple[list[int], int]:
    """Compute all of it anew, then publish: the table that is left, and how many of its blocks were known before."""
    keys = TEXTS.prompt(tokens_of(*tokens), "").block_keys(block_size)
    table = pool.allocate(len(keys))
    return table, pool.publish(keys, table, 0, len(keys))
