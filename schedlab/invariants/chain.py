"""The order of the prefix cache's idle blocks, against what the checker knows of every text that was published."""

from __future__ import annotations

from schedlab.law import Law, When
from schedlab.memory.prefix import CachingBlockPool
from schedlab.sequence import Sequence

LEAF_FIRST = Law(
    "idle_blocks_go_leaf_first",
    "The prefix cache gives up a block only after every block behind it in its texts, and never a held one; texts of "
    "which a sliding window has let go are excused.",
    When.AUDIT,
    numbers=(54,),
)


class Chain:
    """Which key each key stands behind. O(blocks of a text) when a request ends; forgets what is cached no more."""

    def __init__(self) -> None:
        self._parents: dict[int, int] = {}
        self._excused: set[int] = set()

    def excuse(self, sequence: Sequence) -> None:
        """If its window has slid: blocks of others behind what it hides lie idle and unfound until they are taken."""
        if sequence.window is not None and sequence.window.start and sequence.keys:
            self._excused.update(sequence.keys)

    def learn(self, sequence: Sequence) -> None:
        """The keys of a request that gives up its blocks."""
        if sequence.keys:
            self._parents.update(zip(sequence.keys[1:], sequence.keys, strict=False))

    def check(self, pool: CachingBlockPool) -> None:
        """Law 54. O(idle + known keys)."""
        idle = pool.idle_list()
        place = {block: number for number, block in enumerate(idle)}
        for number, block in enumerate(idle):
            key = pool.key_of(block)
            if key is None or pool.references(block):
                raise LEAF_FIRST.broken(f"block {block} is idle with key {key}, {pool.references(block)} hold it")
            parent = self._parents.get(key)
            if parent is None or parent in self._excused:
                continue
            before = pool.lookup([parent], 1)
            if not before or place.get(before[0], len(idle)) < number:
                raise LEAF_FIRST.broken(f"block {block} can be found, and what stands before it in its text went first")
        if len(self._parents) > 2 * pool.total_blocks:
            self._parents = {key: parent for key, parent in self._parents.items() if pool.lookup([key], 1)}
