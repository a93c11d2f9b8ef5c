"""What lies in each physical block: the check that makes "output equals the solo run" mean something without a model.

A sequence writes the key and value of each of its tokens to the place that its block table names and reads all of them
back at every step. If each read finds its own writes, complete and in place, any model would give the tokens that it
gives to the same request alone; a stale, shared, lost or misplaced block is found at the step that reads it.
"""

from __future__ import annotations

from schedlab.memory.blocks import blocks_for
from schedlab.sequence import Sequence


class BlockContents:
    """Per physical block: the sequence that wrote it, which block of that sequence it is, and how many tokens."""

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._contents: dict[int, tuple[Sequence, int, int]] = {}

    def write(self, sequence: Sequence, start: int, count: int) -> None:
        """Tokens `start` .. `start + count - 1` are computed; each lands behind the one before."""
        position, end = start, start + count
        while position < end:
            index, offset = divmod(position, self._block_size)
            block = sequence.block_table[index]
            taken = min(self._block_size - offset, end - position)
            if offset:
                self._expect(block, sequence, index, offset)
            self._contents[block] = (sequence, index, offset + taken)
            position += taken

    def read(self, sequence: Sequence, tokens: int) -> None:
        """Attention looks at the first `tokens` tokens through the table."""
        needed = blocks_for(tokens, self._block_size)
        assert len(sequence.block_table) == needed, f"{sequence} holds {len(sequence.block_table)}, needs {needed}"
        for index, block in enumerate(sequence.block_table):
            self._expect(block, sequence, index, min(self._block_size, tokens - index * self._block_size))

    def _expect(self, block: int, sequence: Sequence, index: int, tokens: int) -> None:
        wanted = (sequence, index, tokens)
        found = self._contents.get(block)
        assert found == wanted, f"block {block} holds {found}, {sequence} expects {wanted[1:]}"
