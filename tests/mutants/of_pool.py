"""Wrong block pools: references, free lists, tickets, refusals."""

from __future__ import annotations

from schedlab.core import lanes, plan
from schedlab.memory import blocks
from schedlab.memory.blocks import BlockPool
from tests.mutants.mutant import Mutant, edit, mutant

MUTANTS: tuple[Mutant, ...] = (
    mutant(
        "a block too many",
        "a block more than the tokens fill where they fill whole ones",
        edit(blocks.blocks_for, "-(-tokens // block_size)", "tokens // block_size + 1"),
    ),
    mutant(
        "a block too few",
        "the last block is not counted unless it is full",
        edit(blocks.blocks_for, "-(-tokens // block_size)", "tokens // block_size or 1"),
    ),
    mutant(
        "the failed allocation",
        "an allocation that cannot be had takes what there is",
        edit(BlockPool.allocate, "self._empty(count - len(free))", "count = len(free)"),
    ),
    mutant(
        "no reference taken",
        "a block that is handed out counts no holder",
        edit(BlockPool.allocate, "references[block] = 1", "references[block] = 0"),
    ),
    mutant(
        "handed out twice",
        "the block at the top stays on the free list",
        edit(BlockPool.allocate, "del free[-count:]", "del free[-count:]\n    free.append(taken[-1])"),
    ),
    mutant(
        "double free allowed",
        "a block that nobody holds may be released",
        edit(BlockPool._release_shared, "if left < 0:", "if left < -1:"),
    ),
    mutant(
        "freed while shared",
        "the first of several holders frees a block",
        edit(BlockPool._release_shared, "if left == 0:", "if left >= 0:"),
    ),
    mutant(
        "the first block stays",
        "a release forgets the first block of the table",
        edit(BlockPool.release, "leaving = blocks[::-1]", "leaving = (blocks[1:] or blocks)[::-1]"),
    ),
    mutant(
        "a table comes back turned round",
        "the blocks of a table go out again in the wrong order",
        edit(BlockPool.release, "leaving = blocks[::-1]", "leaving = blocks[:]"),
    ),
    mutant(
        "open blocks first",
        "blocks that a copy still reads are the first to go out again, and nobody waits for it",
        edit(BlockPool.take_tickets, "if not self._tickets:", "if self._tickets or True:"),
    ),
    mutant(
        "one ticket of many",
        "of the copies that read the blocks of a step only one is waited for",
        edit(BlockPool.take_tickets, "tuple(self._tickets.values())", "tuple(self._tickets.values())[:1]"),
    ),
    mutant(
        "never closed",
        "blocks stay open when the copy has ended",
        edit(BlockPool.close, "del self._open[block]", "continue"),
    ),
    mutant(
        "closed by another",
        "a copy that ends closes blocks that a later one reads",
        edit(BlockPool.close, "if self._open.get(block) is ticket:", "if block in self._open:"),
    ),
    mutant(
        "ready too many",
        "blocks that copies read count as ready",
        edit(BlockPool.ready_blocks, "len(self._free) - self._num_open_empty if self._open else ", ""),
    ),
    mutant(
        "cached blocks counted twice",
        "cached blocks that others hold count as blocks to be had",
        edit(lanes._chunk, "- len(sequence.block_table)", "- sequence.published_blocks"),
    ),
    mutant(
        "refused at any length",
        "a prompt that just fits the pool is refused",
        edit(plan._why_never, "if needed > core.pool.total_blocks:", "if needed >= core.pool.total_blocks:"),
    ),
    mutant(
        "never refused",
        "a prompt that can never fit the pool waits",
        edit(plan._why_never, "if needed > core.pool.total_blocks:", "if needed > 2 * core.pool.total_blocks:"),
    ),
)
