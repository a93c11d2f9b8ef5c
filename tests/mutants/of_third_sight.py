"""The third set of mutants that were once kept apart: 12 of 20 were killed at first sight."""

from __future__ import annotations

from schedlab.core import end_tick, lanes, plan, snapshots, swapping, windows
from schedlab.core.scheduler import Scheduler
from schedlab.memory.blocks import BlockPool
from schedlab.memory.commitment import CommitmentLedger
from schedlab.memory.prefix import CachingBlockPool
from schedlab.memory.slots import SlotTable
from schedlab.memory.snapshots import SnapshotPool
from schedlab.policies.base import Policy
from schedlab.policies.priority import Priority
from schedlab.policies.view import View
from tests.mutants.mutant import Mutant, edit, mutant

MUTANTS: tuple[Mutant, ...] = (
    mutant(
        "aligned from the start",
        "an aligned piece is a whole number of blocks long wherever it begins: after a short one it ends in a block",
        edit(
            lanes._aligned,
            "(start + count) // core.config.block_size * core.config.block_size",
            "start + count // core.config.block_size * core.config.block_size",
        ),
    ),
    mutant(
        "recomputed so far forgotten",
        "who is preempted while it computes again forgets how far it had been: fewer tokens count as recomputed",
        edit(
            Scheduler._forget_computed,
            "max(sequence.recompute_until, sequence.num_computed)",
            "sequence.num_computed",
        ),
    ),
    mutant(
        "one deadline a tick",
        "of several deadlines that have passed one is looked at in a tick: the others end a step late",
        edit(plan._end_overdue, "while deadlines and", "if deadlines and"),
    ),
    mutant(
        "asked once for ever",
        "a request for which nobody could make way is never asked about again, though others came in meanwhile",
        edit(
            plan._let_in,
            "sequence.no_way_at == core.changes",
            "sequence.no_way_at >= 0",
        ),
    ),
    mutant(
        "only the head is passed",
        "being overtaken counts for the head alone: those behind it are passed more than max_bypass times",
        edit(plan._admit, "for bypassed in passed_over:", "for bypassed in passed_over[:1]:"),
    ),
    mutant(
        "no output asked, one output reserved",
        "a prompt of max_model_len tokens is refused though it asks for no output",
        edit(plan._why_never, "(1 if request.max_tokens else 0)", "1"),
    ),
    mutant(
        "compacted too early",
        "slots are compacted before the ended leave theirs: survivors stay scattered",
        edit(
            end_tick.run,
            "core.retire()\n        if core.device.facts.wants_dense_slots:\n            core.compact_slots()",
            "if core.device.facts.wants_dense_slots:\n            core.compact_slots()\n        core.retire()",
        ),
    ),
    mutant(
        "the parked must pass admission",
        "who returns in a line of its own must pass admission too: its commitment counts twice, the watermark applies",
        edit(end_tick._fits, "core.in_line and not core.policy.admit", "not core.policy.admit"),
    ),
    mutant(
        "closed under a later copy",
        "a copy that ends closes its blocks though a later copy of them goes on: they are written under that one",
        edit(BlockPool.close, "if self._open.get(block) is ticket:", "if block in self._open:"),
    ),
    mutant(
        "namespaces must be whole",
        "keys are kept apart only where adapter, salt and tenant are all given: one salt's blocks serve another",
        edit(CachingBlockPool.in_namespace, "not any(namespace)", "not all(namespace)"),
    ),
    mutant(
        "published though swapped out",
        "who is swapped out still counts its blocks as published: those that it gets on return are never found",
        edit(swapping.swap_out, "caching.forget_prefix(sequence)", "pass"),
    ),
    mutant(
        "the first slot behind",
        "a row in the first slot behind the dense ones stays there",
        edit(SlotTable.moves, "sequence.slot >= count", "sequence.slot > count"),
    ),
    mutant(
        "written when staged",
        "an image on disk counts as written when its first copy, to the host, has ended: it is read too early",
        edit(
            swapping.copy_ended,
            "copy.image.written is not None and copy.image.written.number == ticket.number",
            "copy.image.written is not None",
        ),
    ),
    mutant(
        "room for the largest alone",
        "victims of a newcomer count as having swap room if the largest has: the rest is computed again",
        edit(
            View.has_swap_room,
            "sum(image_bytes(self._core, owner) for owner in owners)",
            "max((image_bytes(self._core, owner) for owner in owners), default=0)",
        ),
    ),
    mutant(
        "copies behind a failed one count",
        "copies behind a failed one count in its place: a block that is not safe on disk leaves the device",
        edit(windows.offload_ended, "elif not window.is_stuck:", "else:"),
    ),
    mutant(
        "nobody takes the lease",
        "a use by a request without a session takes the lease from the session that has it",
        edit(SnapshotPool.use, "if session:", "if True:"),
    ),
    mutant(
        "split at the prompt",
        "the split point is that of the prompt also for who returns with outputs: its state is saved too early",
        edit(snapshots._split_point, "sequence.num_known - 1", "sequence.num_prompt_tokens - 1"),
    ),
    mutant(
        "watermark of nothing is unlimited",
        "a watermark of 0 tokens commits all that a request may produce, as if it were unlimited",
        edit(CommitmentLedger.blocks_of, "self._watermark < 0", "self._watermark <= 0"),
    ),
    mutant(
        "reserved is room",
        "blocks that prefills have reserved count as room for the important one: it evicts too few and stays out",
        edit(
            Priority._room_blocks,
            "view.free_blocks - view.reserved_blocks - self.config.watermark_blocks",
            "view.free_blocks - self.config.watermark_blocks",
        ),
    ),
    mutant(
        "smallest by prompt",
        "smallest first goes by the prompt alone: outputs that must be computed again do not count",
        edit(Policy.resume_key, "view.prompt_blocks(sequence), sequence", "sequence.num_prompt_tokens, sequence"),
    ),
)
