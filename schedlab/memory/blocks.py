"""The pool of KV blocks: integers and reference counts. It never sees a tensor."""

from __future__ import annotations

from collections.abc import Iterable

from schedlab.device import Ticket
from schedlab.errors import KvExhausted
from schedlab.memory.laws import RELEASED_IS_HELD, SHARED_IS_HELD


def blocks_for(tokens: int, block_size: int) -> int:
    """Blocks that hold `tokens` tokens."""
    return -(-tokens // block_size)


class BlockPool:
    """Hands out block ids 0 .. total - 1, each with a reference count.

    The free list is a stack whose first pops give 0, 1, 2, ...; blocks that come back are the next to go out, in the
    order of the table that held them. An allocation either succeeds whole or changes nothing.
    """

    __slots__ = ("_copied", "_free", "_num_open_empty", "_open", "_references", "_tickets", "total_blocks")

    def __init__(self, total_blocks: int) -> None:
        self.total_blocks = total_blocks
        self._free = list(range(total_blocks - 1, -1, -1))
        self._references = [0] * total_blocks
        # Blocks that an open copy still reads, with its ticket. Those that are empty are the bottom of the stack, and
        # nothing else lies among them or below.
        self._open: dict[int, Ticket] = {}
        self._copied: dict[int, list[int]] = {}
        self._num_open_empty = 0
        self._tickets: dict[int, Ticket] = {}

    @property
    def free_blocks(self) -> int:
        return len(self._free)

    @property
    def cached_blocks(self) -> int:
        """Blocks that can be found by what they hold; here none."""
        return 0

    @property
    def num_evicted(self) -> int:
        """How often such a block was taken for something else."""
        return 0

    @property
    def ready_blocks(self) -> int:
        """At least so many allocations from now on give no block that an open copy reads."""
        return len(self._free) - self._num_open_empty if self._open else self.free_blocks

    @property
    def used_blocks(self) -> int:
        return self.total_blocks - len(self._free)

    def references(self, block: int) -> int:
        """How many hold `block`; 0 = free."""
        return self._references[block]

    def is_held(self, block: int) -> bool:
        """Has `block` a holder?"""
        return self._references[block] > 0

    def reference_counts(self) -> tuple[int, ...]:
        """Of every block. For checks: O(blocks)."""
        return tuple(self._references)

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
            self._empty(count - len(free))
        if count == 0:
            return []
        taken = free[: -count - 1 : -1]
        del free[-count:]
        references = self._references
        for block in taken:
            references[block] = 1
        if self._open:
            self._note_tickets(taken)
        return taken

    def take_tickets(self) -> tuple[Ticket, ...]:
        """Tickets of the copies that still read blocks handed out since the last call: who writes them must wait."""
        if not self._tickets:
            return ()
        tickets, self._tickets = tuple(self._tickets.values()), {}
        return tickets

    def open_tickets(self) -> tuple[Ticket, ...]:
        """Of the copies that still read blocks. For checks: O(such blocks)."""
        return tuple(self._open.values())

    def keep_open(self, blocks: list[int], ticket: Ticket) -> None:
        """A copy has begun that reads `blocks`, whoever holds them: if they are released before it ends, they wait."""
        self._open.update(dict.fromkeys(blocks, ticket))
        self._copied[ticket.number] = list(blocks)

    def release_after(self, blocks: list[int], ticket: Ticket) -> int:
        """Release `blocks`, which a copy still reads: they are free at once, and each carries the ticket."""
        self.keep_open(blocks, ticket)
        return self.release(blocks)

    def close(self, ticket: Ticket) -> None:
        """The copy has ended; one that reads no blocks of this pool is none of its business."""
        for block in self._copied.pop(ticket.number, ()):
            if self._open.get(block) is ticket:
                del self._open[block]
        num_waiting, self._num_open_empty = self._num_open_empty, 0
        if num_waiting:
            self._sink(0, num_waiting)

    def share(self, blocks: Iterable[int]) -> None:
        """Add one reference to each of `blocks`.

        Raises:
            InvariantViolation: one of them is free.
        """
        for block in blocks:
            if self._references[block] < 1:
                raise SHARED_IS_HELD.broken(f"block {block} is free and cannot be shared")
            self._references[block] += 1

    def reset(self) -> bool:
        """Forget what every block holds; False, and nothing is changed, while anybody holds one."""
        return not self.used_blocks

    def release(self, blocks: list[int]) -> int:
        """Take one reference from each of `blocks` (a table, first block first); returns how many became free.

        Raises:
            InvariantViolation: one of them is free already.
        """
        references, before = self._references, len(self._free)
        leaving = blocks[::-1]
        for block in leaving:
            if references[block] != 1:
                self._release_shared(leaving, leaving.index(block))
                break
            references[block] = 0
        else:
            self._free += leaving
        if self._open:
            self._sink(before, len(self._free))
        return len(self._free) - before

    def _release_shared(self, leaving: list[int], done: int) -> None:
        """Release the blocks from the `done`-th on, some of which others hold too; those before have no holder now."""
        references, free = self._references, self._free
        free += leaving[:done]
        for block in leaving[done:]:
            left = references[block] - 1
            if left < 0:
                raise RELEASED_IS_HELD.broken(f"block {block} is released but nobody holds it")
            references[block] = left
            if left == 0:
                free.append(block)

    def _empty(self, missing: int) -> None:
        """Make `missing` more blocks free, whole or not at all; here there are none to make so."""
        raise KvExhausted(len(self._free) + missing, len(self._free))

    def _sink(self, first: int, end: int) -> None:
        """Of the stack from `first` up to `end`, move what an open copy reads to the bottom: it goes out last."""
        moved = self._free[first:end]
        waiting = [block for block in moved if block in self._open]
        if waiting:
            self._free[first:end] = [block for block in moved if block not in self._open]
            self._free[:0] = waiting
            self._num_open_empty += len(waiting)

    def _note_tickets(self, taken: list[int]) -> None:
        for block in taken:
            ticket = self._open.get(block)
            if ticket is not None:
                self._num_open_empty -= 1
                self._tickets[ticket.number] = ticket
