"""The fifth set of mutants that were once kept apart: 17 of 20 were killed at first sight."""

from __future__ import annotations

from schedlab.core import caching, end_tick, lanes, plan, snapshots, swapping
from schedlab.core.scheduler import Scheduler
from schedlab.memory import reserve
from schedlab.memory.commitment import CommitmentLedger
from schedlab.memory.prefix import CachingBlockPool
from schedlab.memory.slots import SlotTable
from schedlab.memory.snapshots import SnapshotPool
from schedlab.memory.spill.store import SpillStore
from schedlab.policies.base import Policy
from schedlab.policies.priority import Priority
from schedlab.policies.view import View
from tests.mutants.mutant import Mutant, edit, mutant

MUTANTS: tuple[Mutant, ...] = (
    mutant(
        "lookups outlive snapshots",
        "what was looked up stays good while only saved states come and go: one that was evicted is gone on from",
        edit(
            caching.cached_prefix,
            "pool.version + (core.snapshots.version if core.snapshots is not None else 0)",
            "pool.version",
        ),
    ),
    mutant(
        "returns into the reserved",
        "who returns takes the free blocks that prefills in progress have reserved",
        edit(end_tick._fits, "core.pool.free_blocks - core.reserved_blocks", "core.pool.free_blocks"),
    ),
    mutant(
        "alone beside the restoring",
        "a row counts as alone in the pool while another is on its way back: it ends with an error, not preempted",
        edit(
            plan.make_room_for_decoding,
            "len(batch.rows) + len(core.prefilling) + len(core.restoring) == 1",
            "len(batch.rows) + len(core.prefilling) == 1",
        ),
    ),
    mutant(
        "whole prompts leave their tokens",
        "a prompt that must go whole and does not fit into the step leaves its tokens to newcomers, who come in",
        edit(
            plan._tokens_for_newcomers,
            "_first_chunk(core, sequence, tokens) or tokens",
            "_first_chunk(core, sequence, tokens)",
        ),
    ),
    mutant(
        "newcomers do not slide yet",
        "a row that has joined behind the plan does not keep the step from being repeated before its window slides",
        edit(
            lanes._run_length,
            "bool(core.in_flight_growing or core.batch.newcomers)",
            "bool(core.in_flight_growing)",
        ),
    ),
    mutant(
        "failed and computed on",
        "a prefill whose chunk failed is computed on by a later lane of the same tick",
        edit(lanes._chunks, " or sequence in core.ending", ""),
    ),
    mutant(
        "stalled though windows move",
        "copies of windows count as nothing that will move: whoever waits for them alone is called stalled",
        edit(Scheduler.wake_ns, " and not self.offloads", ""),
    ),
    mutant(
        "the slot of one on its way back is ready",
        "who goes while it is on its way back leaves a slot that counts as ready, though the copy still writes there",
        edit(Scheduler.unseat, "self.slots.keep_open(sequence.slot, self.restoring[sequence])", "pass"),
    ),
    mutant(
        "restored and not immune",
        "who returns by a copy is not immune; only those who are computed again are",
        edit(
            swapping._end_restore,
            "sequence.num_outputs + core.config.immunity_tokens",
            "sequence.num_outputs",
        ),
    ),
    mutant(
        "more than the fewest tokens",
        "a state of exactly the fewest tokens that are worth a slot is not saved",
        edit(
            snapshots._can_be_saved,
            "num_tokens < max(pool.min_tokens, 1)",
            "num_tokens <= max(pool.min_tokens, 1)",
        ),
    ),
    mutant(
        "hidden though held",
        "blocks that leave one row's window are hidden though others hold them too: the shared beginning is lost",
        edit(CachingBlockPool.hide, " and self._references[block] == 1", ""),
    ),
    mutant(
        "committed as it began",
        "what a row commits is looked up as it was when it began to decode: its end would free less than it does",
        edit(
            CommitmentLedger.held_by,
            "return (entry[0] + self._step) // self._block_size + 1",
            "return self._held[sequence.request_id]",
        ),
    ),
    mutant(
        "passed slots are lost",
        "free slots that were passed over for a copy are never given out again",
        edit(SlotTable._take_closed, "    for one in passed:\n        heappush(free, one)\n", ""),
    ),
    mutant(
        "a lease without end",
        "a lease is not used up by evictions: its session is spared until another one takes it",
        edit(SnapshotPool._evict, "        self._lease_left -= self._lease_left > 0\n", ""),
    ),
    mutant(
        "snapshots before a sequence",
        "snapshots take the room of the one whole sequence that must fit beside them",
        edit(
            reserve._snapshot_slots,
            "max(needs.max_num_seqs * per_seat, blocks_for(needs.max_model_len, needs.block_size))",
            "needs.max_num_seqs * per_seat",
        ),
    ),
    mutant(
        "moved once and never again",
        "an image that has been moved counts as being moved for ever: it is never moved again",
        edit(SpillStore._only_mover, "held.moving = False", "pass"),
    ),
    mutant(
        "outputs as it joined",
        "the fewest outputs are those that rows had when they joined the batch",
        edit(
            Policy.yield_,
            "(view.outputs(sequence), sequence.admission_index)",
            "(sequence.num_outputs, sequence.admission_index)",
        ),
    ),
    mutant(
        "room for what is on disk",
        "who was swapped out with a window needs room for the blocks too that stay on disk",
        edit(
            View.prompt_blocks,
            "blocks_for(sequence.num_known, self._core.config.block_size) - far_blocks",
            "blocks_for(sequence.num_known, self._core.config.block_size)",
        ),
    ),
    mutant(
        "the way to the disk is free",
        "what swapping to disk costs leaves the write to the disk out",
        edit(View.swap_ns, "[CopyKind.HOST_TO_DISK, CopyKind.DISK_TO_HOST]", "[CopyKind.DISK_TO_HOST]"),
    ),
    mutant(
        "a watermark from nobody",
        "the watermark is kept from the important one even where everybody else would leave for it",
        edit(Priority.make_way, "blocks += self.config.watermark_blocks", "pass"),
    ),
)
