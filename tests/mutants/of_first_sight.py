"""The first set of mutants that were once kept apart: 17 of 20 were killed at first sight.

Those that are not here any more change nothing that a law can hold against them, or were told from the original by
no attack.
"""

from __future__ import annotations

from schedlab.core import caching, lanes, plan, swapping, windows
from schedlab.core.scheduler import Scheduler
from schedlab.memory.blocks import BlockPool
from schedlab.memory.prefix import CachingBlockPool
from schedlab.memory.snapshots import SnapshotPool
from schedlab.memory.spill import files
from schedlab.policies.priority import Priority
from schedlab.policies.view import View
from tests.mutants.mutant import Mutant, edit, mutant

MUTANTS: tuple[Mutant, ...] = (
    mutant(
        "recomputed once less",
        "a sequence that was preempted keeps its count of computed tokens as recomputed once less",
        edit(
            Scheduler._forget_computed,
            "max(sequence.recompute_until, sequence.num_computed)",
            "sequence.num_computed - 1",
        ),
    ),
    mutant(
        "a chunk after the end",
        "a sequence that ended in this tick may still get a chunk",
        edit(lanes._chunks, "or sequence in core.ending", ""),
    ),
    mutant(
        "newcomers cost no tokens",
        "newcomers do not count against the tokens of the step that they share",
        edit(plan._admit, "tokens -= wanted", "pass"),
    ),
    mutant(
        "prefills cost newcomers nothing",
        "prefills in progress leave all tokens to newcomers",
        edit(plan._tokens_for_newcomers, "tokens -= _first_chunk(core, sequence, tokens) or tokens", "pass"),
    ),
    mutant(
        "a victim of its own step",
        "a sequence in the same step may be chosen to make room for a chunk",
        edit(lanes._make_room_for_chunk, "if owner not in in_step", "if owner is not None"),
    ),
    mutant(
        "a broken restore frees at once",
        "the table of a restoring sequence that ends is free before its copy has ended",
        edit(Scheduler._free_table, "if ticket is None else self.pool.release_after(table, ticket)", "if True else 0"),
    ),
    mutant(
        "output keys from the start",
        "keys of outputs are learned from the wrong block on",
        edit(
            caching.learn_output_keys,
            "output_keys(sequence, len(keys), full_blocks",
            "output_keys(sequence, 0, full_blocks",
        ),
    ),
    mutant(
        "reserved though cached",
        "a resumed sequence keeps the reservation of its first prefill",
        edit(
            Scheduler._seat,
            "self.view.prompt_blocks(sequence) - len(sequence.block_table)",
            "self.view.prompt_blocks(sequence)",
        ),
    ),
    mutant(
        "a neighbour points at nothing",
        "the head that leaves an idle list leaves its neighbour pointing at it",
        edit(CachingBlockPool.hold, "previous[after] = before", "pass"),
    ),
    mutant(
        "open blocks on top",
        "a block that nobody waits for is taken from below the ones that copies read",
        edit(BlockPool._sink, "self._free[:0] = waiting", "self._free[len(self._free):] = waiting"),
    ),
    mutant(
        "a block short for the run",
        "a run hands out blocks for an iteration less than it has",
        edit(lanes._advance_rows, "batch.growth_blocks(1, iterations - 1)", "batch.growth_blocks(1, iterations - 2)"),
    ),
    mutant(
        "the wrong ticket has ended",
        "images of a disk victim name no ticket",
        edit(swapping.copy_ended, "image.written.number == ticket.number", "image.written.number != ticket.number"),
    ),
    mutant(
        "the block behind is offloaded",
        "an offload requests the block behind the one that is due",
        edit(
            windows._offload,
            "sequence.block_table[window.requested - window.start]",
            "sequence.block_table[window.requested - window.start - 1]",
        ),
    ),
    mutant(
        "settled but still owned",
        "a settled snapshot keeps its place among those that nobody can find",
        edit(SnapshotPool.settle, "del self._by_owner[owner]", "pass"),
    ),
    mutant(
        "aging counts a thousandth",
        "aging counts a thousandth",
        edit(Priority.__init__, "round(aging_per_s * MICRO)", "round(aging_per_s * MICRO) // 1000"),
    ),
    mutant(
        "held cached blocks count as missing",
        "an admission counts the cached blocks that others hold as missing",
        edit(View.missing_blocks, "sum(map(self._core.pool.is_held, found))", "0 * len(found)"),
    ),
    mutant(
        "the last bytes are not read",
        "the last bytes of a spilled image are not read",
        edit(files._read_all, "rest = memoryview(content)", "rest = memoryview(content)[:-8]"),
    ),
)
