"""The sixth set of mutants that were once kept apart: 13 of 20 were killed at first sight."""

from __future__ import annotations

from schedlab.core import caching, lanes, reset, snapshots, stops
from schedlab.core.scheduler import Scheduler
from schedlab.core.snapshots import SnapshotSchedule
from schedlab.memory.commitment import CommitmentLedger
from schedlab.memory.slots import SlotTable
from schedlab.memory.spill import files
from schedlab.memory.spill.store import SpillStore
from schedlab.memory.swap import SwapSpace
from schedlab.policies import load
from schedlab.policies.base import Policy
from tests.mutants.mutant import Mutant, edit, mutant

MUTANTS: tuple[Mutant, ...] = (
    mutant(
        "sixth 1",
        "who is preempted again while it computes again forgets how far it had been before: it recomputes uncounted",
        edit(
            Scheduler._forget_computed,
            "max(sequence.recompute_until, sequence.num_computed)",
            "sequence.num_computed",
        ),
    ),
    mutant(
        "sixth 2",
        "a prefill that had to give way ends the step's chunks, though prompts may go in pieces",
        edit(lanes._chunks, "elif not core.config.chunked_prefill:", "else:"),
    ),
    mutant(
        "sixth 3",
        "a row whose first block is safe on disk but still on the device counts as broken: its state is not saved",
        edit(snapshots._is_whole, "not sequence.window.start", "not sequence.window.offloaded"),
    ),
    mutant(
        "sixth 4",
        "what an ended sequence held for itself is looked for under its request's id: it stays, or another's goes",
        edit(
            Scheduler.end,
            "self.snapshots.drop(sequence.arrival_index)",
            "self.snapshots.drop(sequence.request_id)",
        ),
    ),
    mutant(
        "sixth 5",
        "the blocks in use of a pure decode step are counted before its rows have got theirs",
        edit(
            lanes._decode,
            "    core.in_flight_used_blocks = core.pool.used_blocks\n",
            "",
            "    core.in_flight_growing = list(growing)\n",
            "    core.in_flight_growing = list(growing)\n    core.in_flight_used_blocks = core.pool.used_blocks\n",
        ),
    ),
    mutant(
        "sixth 6",
        "a row that has a window leaves nothing of its outputs to be found, even if all its blocks are still here",
        edit(caching.publish_outputs, "(sequence.window and sequence.window.start)", "sequence.window"),
    ),
    mutant(
        "sixth 7",
        "ignore_eos covers an end-of-sequence id that the request names as its own stop token too",
        edit(
            stops.ends,
            "if token in sampling.eos_token_ids and not sampling.ignore_eos:\n        return True",
            "if token in sampling.eos_token_ids:\n        return not sampling.ignore_eos",
        ),
    ),
    mutant(
        "sixth 8",
        "a reset that is refused empties the saved states all the same",
        edit(reset.reset_cache, "if done and core.snapshots is not None:", "if core.snapshots is not None:"),
    ),
    mutant(
        "sixth 9",
        "a prompt whose cached blocks are all lost for want of a state is not counted among the cut ones",
        edit(
            caching.take_prefix,
            "    if core.snapshots is not None:\n"
            "        core.snapshots.count_cut(sequence.num_found_blocks - len(found))\n"
            "    if not found:\n        return\n",
            "    if not found:\n        return\n"
            "    if core.snapshots is not None:\n"
            "        core.snapshots.count_cut(sequence.num_found_blocks - len(found))\n",
        ),
    ),
    mutant(
        "sixth 10",
        "a row that joins with a whole number of intervals is due at once: the state after is saved as its prompt's",
        edit(
            SnapshotSchedule.add,
            "self._every_tokens - sequence.joined_len % self._every_tokens",
            "-sequence.joined_len % self._every_tokens",
        ),
    ),
    mutant(
        "sixth 11",
        "released slots are appended to the heap of free ones: the next to come does not get the lowest",
        edit(SlotTable.release, "heappush(self._free, sequence.slot)", "self._free.append(sequence.slot)"),
    ),
    mutant(
        "sixth 12",
        "an operation that a closed store refuses counts as under way: the store never leaves its directory",
        edit(
            SpillStore._operation,
            "        if self._closed:\n",
            "        self._in_flight += 1\n        if self._closed:\n",
            'raise SpillUnavailable("the spill store is closed")\n        self._in_flight += 1\n',
            'raise SpillUnavailable("the spill store is closed")\n',
        ),
    ),
    mutant(
        "sixth 13",
        "an image that would fill its tier to the last byte is not let in",
        edit(
            SwapSpace.has_room,
            "self.used_bytes[tier] + num_bytes <= self.budget_bytes[tier]",
            "self.used_bytes[tier] + num_bytes < self.budget_bytes[tier]",
        ),
    ),
    mutant(
        "sixth 14",
        "a reader whose file was moved to the host meanwhile is told that the image is gone",
        edit(
            SpillStore._read,
            "        content = held.content\n        if content is None:\n            raise\n        return content\n",
            "        raise\n",
        ),
    ),
    mutant(
        "sixth 15",
        "what a growing row commits is rounded up like used blocks: one too few whenever it ends with a block",
        edit(
            CommitmentLedger.held_by,
            "return (entry[0] + self._step) // self._block_size + 1",
            "return -(-(entry[0] + self._step) // self._block_size)",
        ),
    ),
    mutant(
        "sixth 16",
        "a link in the place of an image makes the store unusable instead of the image gone",
        edit(files.read_image, "(errno.ENOENT, errno.ELOOP, errno.ENXIO)", "(errno.ENOENT, errno.ENXIO)"),
    ),
    mutant(
        "sixth 17",
        "the place in line is by the time of arrival: among those of one instant nobody is before another",
        edit(
            Policy.rank,
            "return self.key(sequence.request), sequence.arrival_index",
            "return self.key(sequence.request), sequence.request.arrival_ns",
        ),
    ),
    mutant(
        "sixth 18",
        "the pool counts as empty while others only prefill: a newcomer takes what they have reserved",
        edit(
            Policy._fits_prompt,
            "if view.free_seats == self.config.max_num_seqs:",
            "if not view.num_active:",
        ),
    ),
    mutant(
        "sixth 19",
        "immunity ends an output too late, and who has not produced anything yet is immune from the start",
        edit(
            Policy._not_immune,
            "view.outputs(one) >= one.immune_until_outputs",
            "view.outputs(one) > one.immune_until_outputs",
        ),
    ),
    mutant(
        "sixth 20",
        "a policy's file is not known as a module while it is run: what looks it up by its name finds nothing",
        edit(load._from_file, "    sys.modules.setdefault(path.stem, module)\n", ""),
    ),
)
