"""A block pool that remembers what its full blocks hold, so that a prompt may start where an earlier one has been.

Keys are chained: equal keys mean equal tokens in the block and in every block before it. The prefix tree therefore
needs no tree, only one map key -> block. Blocks that nobody holds but that have a key lie idle in one ordered list, the
deepest of a sequence first, so its head is always the least recently used leaf. The list is linked through two arrays,
eight bytes a block, since a pool may have millions.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence as List

from schedlab.errors import KvExhausted
from schedlab.memory.blocks import BlockPool
from schedlab.memory.laws import RELEASED_IS_HELD

# Keys within a namespace are smaller than this many bits: a 128-bit hash times the parts of a block.
KEY_BITS = 192


class CachingBlockPool(BlockPool):
    """Block ids with reference counts, of which the idle ones (known key, no holder) are reclaimed when needed.

    Law: idle successors of an idle block lie before it in the list. It holds since whoever holds a block holds the
    blocks before it in the chain: `publish` replaces a late duplicate by the block that has the key already, and who
    lets go of a beginning alone (a sliding window) hides it, and later the rest. What others left idle behind a hidden
    block is found by nobody until somebody computes that block again; it is taken in its turn like any idle one.
    """

    __slots__ = ("_blocks", "_keys", "_namespaces", "_next", "_num_evicted", "_num_idle", "_previous", "version")

    def __init__(self, total_blocks: int) -> None:
        super().__init__(total_blocks)
        self._blocks: dict[int, int] = {}
        self._keys: list[int | None] = [None] * total_blocks
        # The idle list is a ring; `total_blocks` stands for its end, so [end] is the head and, before it, the tail.
        self._next = array("i", [total_blocks]) * (total_blocks + 1)
        self._previous = array("i", [total_blocks]) * (total_blocks + 1)
        self._num_idle = 0
        self._namespaces: dict[tuple[str, ...], int] = {}
        self._num_evicted = 0
        # Counts every change of what `lookup` may answer.
        self.version = 0

    @property
    def free_blocks(self) -> int:
        """Blocks that an allocation may have: empty or idle."""
        return len(self._free) + self._num_idle

    @property
    def used_blocks(self) -> int:
        """Blocks that somebody holds."""
        return self.total_blocks - len(self._free) - self._num_idle

    @property
    def cached_blocks(self) -> int:
        """Blocks with a key, held or idle."""
        return len(self._blocks)

    @property
    def num_evicted(self) -> int:
        """How often an idle block was taken for something else."""
        return self._num_evicted

    def idle_list(self) -> tuple[int, ...]:
        """Idle blocks, the next to be reclaimed first. For checks: O(idle)."""
        idle, block = [], self._next[self.total_blocks]
        while block != self.total_blocks:
            idle.append(block)
            block = self._next[block]
        return tuple(idle)

    def keys(self) -> tuple[int | None, ...]:
        """Of every block. For checks: O(blocks)."""
        return tuple(self._keys)

    def key_of(self, block: int) -> int | None:
        """The key under which a block can be found."""
        return self._keys[block]

    def in_namespace(self, keys: list[int], namespace: tuple[str, ...]) -> list[int]:
        """`keys` such that equal ones of different namespaces are different; as they are where every part is empty."""
        if not keys or not any(namespace):
            return keys
        number = self._namespaces.setdefault(namespace, len(self._namespaces) + 1)
        return [key + (number << KEY_BITS) for key in keys]

    def lookup(self, keys: List[int], most: int) -> list[int]:
        """Blocks of the leading run of known keys, at most `most` of them. Takes no reference."""
        found = []
        get = self._blocks.get
        for key in keys[:most]:
            block = get(key)
            if block is None:
                break
            found.append(block)
        return found

    def hold(self, blocks: List[int]) -> None:
        """Take one reference to each of `blocks`, idle or held."""
        references, following, previous = self._references, self._next, self._previous
        for block in blocks:
            if references[block] == 0:
                before, after = previous[block], following[block]
                following[before] = after
                previous[after] = before
                self._num_idle -= 1
            references[block] += 1

    def publish(self, keys: List[int], table: list[int], first: int, last: int) -> int:
        """Give blocks `first` .. `last - 1` of `table` their keys; they are full and computed.

        A block whose key is known already is released and replaced in the table by the known one. Returns how many
        were replaced.
        """
        known, own_keys, replaced = self._blocks, self._keys, 0
        for index in range(first, last):
            key, block = keys[index], table[index]
            found = known.get(key)
            if found is None:
                known[key] = block
                own_keys[block] = key
            elif found != block:
                self.hold((found,))
                self.release([block])
                table[index] = found
                replaced += 1
        self.version += 1
        return replaced

    def hide(self, blocks: List[int]) -> None:
        """Nobody can find those of `blocks` any more that only one holds."""
        for block in blocks:
            key = self._keys[block]
            if key is not None and self._references[block] == 1:
                self._keys[block] = None
                del self._blocks[key]
        self.version += 1

    def reset(self) -> bool:
        if self.used_blocks:
            return False
        self._empty(self._num_idle)
        return True

    def release(self, blocks: list[int]) -> int:
        """Take one reference from each of `blocks` (a table, first block first); returns how many nobody holds now.

        Raises:
            InvariantViolation: one of them has no holder already.
        """
        references, keys, bottom, before = self._references, self._keys, len(self._free), self.free_blocks
        leaving = blocks[::-1]
        for block in leaving:
            if references[block] != 1 or keys[block] is not None:
                self._release_shared(leaving, leaving.index(block))
                break
            references[block] = 0
        else:
            self._free += leaving
        if self._open:
            self._sink(bottom, len(self._free))
        return self.free_blocks - before

    def _release_shared(self, leaving: list[int], done: int) -> None:
        references, keys, free = self._references, self._keys, self._free
        following, previous, end, num_idle = self._next, self._previous, self.total_blocks, self._num_idle
        free += leaving[:done]
        for block in leaving[done:]:
            left = references[block] - 1
            if left < 0:
                raise RELEASED_IS_HELD.broken(f"block {block} is released but nobody holds it")
            references[block] = left
            if left == 0:
                if keys[block] is None:
                    free.append(block)
                else:
                    tail = previous[end]
                    following[tail] = previous[end] = block
                    previous[block] = tail
                    following[block] = end
                    num_idle += 1
        self._num_idle = num_idle

    def _empty(self, missing: int) -> None:
        """Make the `missing` least recently used idle blocks empty, in an order that hands the oldest out first."""
        if missing > self._num_idle:
            raise KvExhausted(len(self._free) + missing, self.free_blocks)
        known, keys, following, end = self._blocks, self._keys, self._next, self.total_blocks
        evicted = []
        block = following[end]
        for _ in range(missing):
            key = keys[block]
            assert key is not None
            del known[key]
            keys[block] = None
            evicted.append(block)
            block = following[block]
        following[end] = block
        self._previous[block] = end
        self._num_idle -= missing
        evicted.reverse()
        # Empty blocks go first, so what is evicted lies below them on the stack; below it only what a copy reads.
        bottom = self._num_open_empty
        self._free[bottom:bottom] = evicted
        if self._open:
            self._sink(bottom, bottom + missing)
        self._num_evicted += missing
        self.version += 1
