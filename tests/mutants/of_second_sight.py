"""Of the second set of mutants that were once kept apart those that an attack tells from the original."""

from __future__ import annotations

from schedlab.core import lanes, plan
from schedlab.memory.commitment import CommitmentLedger
from schedlab.memory.prefix import CachingBlockPool
from schedlab.memory.slots import SlotTable
from schedlab.memory.spill.store import SpillStore
from schedlab.policies.base import Policy
from tests.mutants.mutant import Mutant, edit, mutant

MUTANTS: tuple[Mutant, ...] = (
    mutant(
        "who ends third",
        "of the rows that end together two end",
        edit(lanes._end_rows, "in sorted(ended,", "in sorted(list(ended)[:2],"),
    ),
    mutant(
        "nothing counts as a token",
        "an empty output counts as a token",
        edit(lanes._sample, "if sequence in result.without_token:", "if False:"),
    ),
    mutant(
        "none asked, one given",
        "a request that asks for no output decodes",
        edit(lanes._sample, "if sequence.max_outputs == 0:", "if sequence.max_outputs < 0:"),
    ),
    mutant(
        "the immune go first",
        "a victim is taken among the immune",
        edit(
            Policy._not_immune,
            "view.outputs(one) >= one.immune_until_outputs",
            "view.outputs(one) < one.immune_until_outputs",
        ),
    ),
    mutant(
        "restoring rows are nobody",
        "rows that restore are no owners when a full pool is held by one",
        edit(plan.make_room_for_decoding, " + len(core.restoring)", ""),
    ),
    mutant(
        "shut down too soon",
        "a closed inbox is a shutdown though requests live",
        edit(plan.make, "core.inbox.closed and not core.sequences", "core.inbox.closed and not core.waiting"),
    ),
    mutant(
        "hidden and found",
        "hidden blocks can be found",
        edit(CachingBlockPool.hide, "del self._blocks[key]", "pass"),
    ),
    mutant(
        "the second slot first",
        "ids of slots that were never used are given from one up",
        edit(SlotTable.claim, "slot = self._num_used_ever\n", "slot = self._num_used_ever + 1\n"),
    ),
    mutant(
        "residues stay",
        "a ledger entry that has settled is counted among the growing ones of its residue",
        edit(CommitmentLedger._settle, "self._residues[base % self._block_size] -= 1", "pass"),
    ),
    mutant(
        "moving for ever",
        "a move that fails leaves the image marked as moving",
        edit(SpillStore._only_mover, "held.moving = False", "pass"),
    ),
)
