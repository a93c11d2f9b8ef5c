"""The fourth set of mutants that were once kept apart: 16 of 20 were killed at first sight."""

from __future__ import annotations

from schedlab.core import end_tick, lanes, plan, reset, stops, swapping, windows
from schedlab.core.limits import OutputLimits
from schedlab.core.scheduler import Scheduler
from schedlab.memory.blocks import BlockPool
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
        "left before it has come",
        "who ends on its way back leaves blocks to be found whose content has not come yet",
        edit(
            Scheduler.end,
            "if state is not State.RESTORING and reason is not FinishReason.ERROR:",
            "if reason is not FinishReason.ERROR:",
        ),
    ),
    mutant(
        "settled twice and admitted",
        "a second delivery at the same instant makes a tick forget that somebody had to go: it admits all the same",
        edit(
            plan.receive,
            "if make_room_for_decoding(core):\n        core.evicted = True",
            "core.evicted = make_room_for_decoding(core)",
        ),
    ),
    mutant(
        "copies of windows are not waited for",
        "while only blocks of windows are being copied, a step does not wait for those copies",
        edit(lanes._step, "if core.copies or core.offloads:", "if core.copies:"),
    ),
    mutant(
        "an end in an earlier lane is no change",
        "who ended with its prompt in an earlier lane does not keep the decode step of that tick from being repeated",
        edit(
            lanes._plans_would_repeat,
            "if len(core.inbox) or core.prefilling or core.ending:",
            "if len(core.inbox) or core.prefilling:",
        ),
    ),
    mutant(
        "released from a window and nobody told",
        "blocks that leave with a window are no change: whoever was refused a return is not looked at again for them",
        edit(
            windows._release,
            "core.batch.far_blocks += leaving\n        core.changes += 1",
            "core.batch.far_blocks += leaving",
        ),
    ),
    mutant(
        "restored under copies that still read",
        "a copy back to the device does not wait for the copies that still read its blocks; the step after it does",
        edit(
            swapping.restore,
            "after = core.pool.take_tickets() + tuple(",
            "after = tuple(",
        ),
    ),
    mutant(
        "the limit of a former stay",
        "the limit that a row had in a former stay in the batch still counts: it ends before its last tokens",
        edit(
            OutputLimits._is_live,
            "entry[2] in self._batch.rows and entry[1] == entry[2].row_index",
            "entry[2] in self._batch.rows",
        ),
    ),
    mutant(
        "stops see late outputs only",
        "a stop matcher is not shown the outputs below min_tokens, so it misses what began there",
        edit(
            stops.ends,
            "    matched = request.stop is not None and request.stop.feed(token)\n",
            "",
            "return matched or token in sampling.stop_token_ids",
            "return (request.stop is not None and request.stop.feed(token)) or token in sampling.stop_token_ids",
        ),
    ),
    mutant(
        "headroom for nobody",
        "the headroom of a return is asked for even where nobody is there whose growth it would serve",
        edit(
            end_tick._fits,
            "core.config.resume_headroom_blocks if core.free_seats < core.config.max_num_seqs else 0",
            "core.config.resume_headroom_blocks",
        ),
    ),
    mutant(
        "a reset forgets the restoring",
        "a reset that preempts all forgets those who are on their way back",
        edit(
            reset._start_over,
            "[*core.prefilling, *core.batch.rows, *core.restoring]",
            "[*core.prefilling, *core.batch.rows]",
        ),
    ),
    mutant(
        "blocks that are read are ready",
        "released blocks that a copy still reads count as ready: the later iterations of a run write under the copy",
        edit(BlockPool._sink, "\n        self._num_open_empty += len(waiting)", ""),
    ),
    mutant(
        "taken blocks keep old lookups",
        "taking idle blocks for something else does not outdate what was looked up before: it names foreign blocks",
        edit(CachingBlockPool._empty, "\n    self.version += 1", ""),
    ),
    mutant(
        "states of its session go stale",
        "who goes on from a state that everybody may use does not keep its own session's states fresh by that",
        edit(
            SnapshotPool._touch,
            "self._use_session(session, snapshot.recency)",
            "self._use_session(snapshot.session, snapshot.recency)",
        ),
    ),
    mutant(
        "grows from its admission",
        "a row starts to grow from what it committed on admission: the token that its prompt gave is not counted",
        edit(
            CommitmentLedger.start_growing,
            "    self._set(sequence.request_id, self.blocks_of(sequence.num_known, end_tokens(sequence)))\n",
            "",
        ),
    ),
    mutant(
        "compacted under a copy",
        "compaction moves a row into a free slot whose state a copy still reads",
        edit(
            SlotTable.moves,
            "self._take_closed(count) if sequence.slot >= count else None",
            "heappop(self._free) if sequence.slot >= count and self._free and self._free[0] < count else None",
        ),
    ),
    mutant(
        "moved bytes given back there",
        "an image that was moved gives back its bytes in the tier that it has come to, not in the one that it left",
        edit(
            SpillStore.move, "self._release(old.tier, image.size_bytes)", "self._release(held.tier, image.size_bytes)"
        ),
    ),
    mutant(
        "swapped out past the parked",
        "active ones are swapped out for a newcomer even while others wait for their return",
        edit(
            Policy.make_way,
            "not self.config.swap_at_admission or view.num_parked or not view.free_seats",
            "not self.config.swap_at_admission or not view.free_seats",
        ),
    ),
    mutant(
        "too large a commitment even alone",
        "who may grow beyond what the pool commits is not let in even where nobody else has a commitment",
        edit(
            Policy._fits_commitment,
            "committed == 0 or committed + needed_blocks <=",
            "committed + needed_blocks <=",
        ),
    ),
    mutant(
        "aging decides who is evicted",
        "aging counts when it is decided who is less important and may be evicted",
        edit(
            Priority.make_way,
            "if owner.request.priority > sequence.request.priority",
            "if self.key(owner.request) > self.key(sequence.request)",
        ),
    ),
    mutant(
        "cached blocks count for an image",
        "who returns with an image counts cached blocks as its own, though its image needs room for all of them",
        edit(
            View.missing_blocks,
            "if sequence.image is not None or not sequence.has_keys:",
            "if not sequence.has_keys:",
        ),
    ),
)
