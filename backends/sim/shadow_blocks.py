"""What lies in each physical block of the shadow KV, and a pool that poisons what it hands out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from backends.sim.shadow_content import MASK, digest_of
from schedlab.memory.blocks import BlockPool
from schedlab.memory.prefix import CachingBlockPool

POISON = -7


class Held(NamedTuple):
    """What a block or its copy holds: the sum of `tokens` values that a request wrote to its block `number`."""

    digest: int
    tokens: int
    request_id: int
    number: int

    def __str__(self) -> str:
        if not self.tokens:
            return "nothing"
        return f"{self.tokens} tokens (digest {self.digest:016x}) of block {self.number} of request {self.request_id}"


def poison(block: int) -> Held:
    """Contents that nobody may read."""
    return Held(digest_of(POISON, block), 0, -1, -1)


class BlockStates:
    """The contents of every block, and until when a copy uses it.

    Attributes:
        digests: per block, for reads of whole tables.
        busy_until: end of the last copy from or to a block, in quanta; blocks that no copy has used are not in it.
    """

    __slots__ = ("_labels", "_tokens", "busy_until", "digests")

    def __init__(self, total_blocks: int) -> None:
        self.digests = [poison(block).digest for block in range(total_blocks)]
        self.busy_until: dict[int, int] = {}
        self._tokens = [0] * total_blocks
        self._labels = [(-1, -1)] * total_blocks

    def write(self, block: int, offset: int, count: int, value: int, label: tuple[int, int]) -> None:
        """Positions from `offset` on get values with that sum; those behind them count as unwritten."""
        tokens, digest = self._tokens[block], self.digests[block]
        if offset == 0:
            self.digests[block] = value
        elif offset == tokens:
            self.digests[block] = (digest + value) & MASK
        else:
            self.digests[block] = digest_of(digest, tokens, offset, value)
        self._tokens[block] = offset + count
        self._labels[block] = label

    def get(self, block: int) -> Held:
        return Held(self.digests[block], self._tokens[block], *self._labels[block])

    def put(self, block: int, held: Held) -> None:
        self.digests[block], self._tokens[block] = held.digest, held.tokens
        self._labels[block] = held.request_id, held.number

    def hand_out(self, blocks: Iterable[int]) -> None:
        """Nobody may read them before they are written."""
        for block in blocks:
            self.put(block, poison(block))

    def keep_busy(self, blocks: Iterable[int], until_quanta: int) -> None:
        """A copy reads or writes `blocks`."""
        for block in blocks:
            self.busy_until[block] = max(until_quanta, self.busy_until.get(block, 0))


class PoisoningPool(BlockPool):
    """Tells of every block that it hands out. It has no slots of its own, so that it may join any pool."""

    on_handed_out: Callable[[Iterable[int]], None]

    def allocate(self, count: int) -> list[int]:
        blocks = super().allocate(count)
        self.on_handed_out(blocks)
        return blocks


class PoisoningCachingPool(PoisoningPool, CachingBlockPool):
    """The same with a prefix cache: what a prompt finds there keeps its contents."""


def poisoning(pool: BlockPool, on_handed_out: Callable[[Iterable[int]], None]) -> BlockPool:
    """A pool like `pool`, of which nothing has been handed out."""
    assert pool.used_blocks == 0
    kind = PoisoningCachingPool if isinstance(pool, CachingBlockPool) else PoisoningPool
    watched = kind(pool.total_blocks)
    watched.on_handed_out = on_handed_out
    return watched
