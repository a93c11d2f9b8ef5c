"""The pool of KV blocks: integers and reference counts. It never sees a tensor."""

from __future__ import annotations

from collections.abc import Iterable

from schedlab.errors import InvariantViolation, KvExhausted


def blocks_for(tokens: int, block_size: int) -> int:
    """Blocks that hold `tokens` tokens."""
    return -(-tokens // block_size)


class BlockPool:
    """Hands out block ids 0 .. total - 1, each with a reference count.

    The free list is a stack whose first pops give 0, 1, 2, ...; blocks that come back are the next to go out, in the
    order of the table that held them. An allocation either succeeds whole or changes nothing.
    """

    __slots__ = ("_free", "_references", "total_blocks")

    def __init__(self, total_blocks: int) -> None:
        self.total_blocks = total_blocks
        self._free = list(range(total_blocks - 1, -1, -1))
        self._references = [0] * total_blocks

    @property
    def free_blocks(self) -> int:
        return len(self._free)

    @property
    def used_blocks(self) -> int:
        return self.total_blocks - len(self._free)

    def references(self, block: int) -> int:
        """How many hold `block`; 0 = free."""
        return self._references[block]

    def is_held(self, block: int) -> bool:
        """Has `block` a holder?"""
        return self._references[block] > 0

    def free_list(self) -> tuple[int, ...]:
        """Free blocks, the next to go out last. For checks: O(free)."""
        return tuple(self._free)

    def allocate(self, count: int) -> list[int]:
        """Take `count` free blocks, each with one reference.

        Raises:
            KvExhausted: fewer are free; nothing has changed.
        """
        free = self._free
        if count > len(free):
            raise KvExhausted(count, len(free))
        if count == 0:
            return []
        taken = free[: -count - 1 : -1]
        del free[-count:]
        references = self._references
        for block in taken:
            references[block] = 1
        return taken

    def share(self, blocks: Iterable[int]) -> None:
        """Add one reference to each of `blocks`.

        Raises:
            InvariantViolation: one of them is free.
        """
        for block in blocks:
            if self._references[block] < 1:
                raise InvariantViolation(f"block {block} is free and cannot be shared")
            self._references[block] += 1

    def release(self, blocks: list[int]) -> int:
        """Take one reference from each of `blocks` (a table, first block first); returns how many became free.

        Raises:
            InvariantViolation: one of them is free already.
        """
        references = self._references
        free = self._free
        before = len(free)
        for block in reversed(blocks):
            left = references[block] - 1
            references[block] = left
            if left == 0:
                free.append(block)
            elif left < 0:
                references[block] = 0
                raise InvariantViolation(f"block {block} is released but nobody holds it")
        return len(free) - before
