"""Wrong sums: the batch's aggregates, the ledger of commitments, seats and slots."""

from __future__ import annotations

from schedlab.batch import DecodeBatch
from schedlab.core.limits import OutputLimits
from schedlab.core.scheduler import Scheduler
from schedlab.memory.commitment import CommitmentLedger
from schedlab.memory.slots import SlotTable
from schedlab.windowed import WindowedContext
from tests.mutants.mutant import Mutant, edit, mutant

MUTANTS: tuple[Mutant, ...] = (
    mutant(
        "compaction onto owned slots",
        "compaction looks at the survivors only, and moves a row onto the slot of a prefill in progress",
        edit(
            SlotTable.moves,
            "self._take_closed(count) if sequence.slot >= count else None",
            "next((slot for slot in range(count) if slot not in [one.slot for one in survivors]), None) "
            "if sequence.slot >= count else None",
        ),
        defect=2,
    ),
    mutant(
        "slot given twice",
        "a slot that was given away stays free",
        edit(SlotTable.claim, "slot = heappop(self._free) if not self._open", "slot = self._free[0] if not self._open"),
        edit(
            SlotTable._take_closed,
            "heappop(free) if free and free[0] < limit else None",
            "free[0] if free and free[0] < limit else None",
        ),
    ),
    mutant(
        "slot kept for good",
        "a slot does not come back",
        edit(SlotTable.release, "heappush(self._free, sequence.slot)", "pass"),
    ),
    mutant(
        "slot under a copy",
        "nobody waits for the copy that still reads a slot",
        edit(SlotTable.claim, "return self._open.pop(slot, None)", "return self._open.pop(slot, None) and None"),
    ),
    mutant(
        "moved onto a busy slot",
        "compaction moves a row onto a slot that a copy still reads",
        edit(SlotTable._take_closed, "while free and free[0] in self._open:", "while False:"),
    ),
    mutant(
        "moved off a live slot",
        "the slot that a row has left goes to nobody",
        edit(SlotTable.moves, "heappush(self._free, source)", "pass"),
    ),
    mutant(
        "context forgets who left",
        "the sum of contexts keeps the length of rows that have left",
        edit(DecodeBatch.leave, "self._context_base -= base", "pass"),
    ),
    mutant(
        "residue off by one",
        "rows are filed under the residue of the next iteration",
        edit(DecodeBatch.join, "base % self.block_size", "(base + 1) % self.block_size"),
        edit(DecodeBatch.leave, "base % self.block_size", "(base + 1) % self.block_size"),
    ),
    mutant(
        "an output lost on leaving",
        "a row that leaves the batch loses its newest token",
        edit(
            DecodeBatch.leave,
            "sequence.num_computed - sequence.num_prompt_tokens + 1",
            "sequence.num_computed - sequence.num_prompt_tokens",
        ),
        defect=17,
    ),
    mutant(
        "affordable by one more",
        "a run may need a block more than there are",
        edit(DecodeBatch.affordable, "if blocks < 0:", "if blocks < -1:"),
    ),
    mutant(
        "affordable but short",
        "a run stops an iteration before blocks run out",
        edit(DecodeBatch.affordable, "if blocks < 0:", "if blocks <= 0:"),
    ),
    mutant(
        "growth of the rest forgotten",
        "a run of whole cycles and a rest takes the blocks of the cycles only",
        edit(DecodeBatch.growth_blocks, " + sum(map(len, self.growing_from(first)[:rest]))", ""),
    ),
    mutant(
        "growing in turned order",
        "the rows that need blocks are taken in the wrong order of iterations",
        edit(
            DecodeBatch.growing_from, "residues[first::-1] + residues[:first:-1]", "residues[first:] + residues[:first]"
        ),
    ),
    mutant(
        "token time of the youngest",
        "the policy is told the newest token of the youngest row",
        edit(DecodeBatch.oldest_token_ns, "next(iter(self.rows))", "next(reversed(self.rows))"),
    ),
    mutant(
        "newcomers that left",
        "a row that left before its first step is still announced",
        edit(DecodeBatch.leave, "self.newcomers.remove(sequence)", "pass"),
    ),
    mutant(
        "far blocks stay",
        "the blocks on disk of rows that left are still read",
        edit(DecodeBatch.leave, "self.far_blocks -= sequence.window.start", "pass"),
    ),
    mutant(
        "limits of the dead",
        "rows that have left still end runs",
        edit(OutputLimits.next_step, "while not self._is_live(heap[0]):", "while False:"),
    ),
    mutant(
        "limits of the former stay",
        "a row that comes back ends at its former step",
        edit(OutputLimits._is_live, " and entry[1] == entry[2].row_index", ""),
    ),
    mutant(
        "no commitment on admission",
        "an admitted request commits nothing until it decodes",
        edit(CommitmentLedger.add, "self.blocks += blocks", "pass"),
    ),
    mutant(
        "commitment off by one",
        "a commitment is a block short",
        edit(CommitmentLedger.blocks_of, "tokens // self._block_size + 1", "-(-tokens // self._block_size)"),
    ),
    mutant(
        "commitment stays",
        "a sequence that has ended stays committed",
        edit(
            CommitmentLedger.remove,
            "self.blocks -= self._held.pop(sequence.request_id)",
            "self._held.pop(sequence.request_id)",
        ),
    ),
    mutant(
        "commitment stands still",
        "the ledger does not follow the iterations",
        edit(CommitmentLedger._run_to, "self.blocks += gained", "pass"),
    ),
    mutant(
        "commitment grows for ever",
        "a commitment grows beyond what its sequence may come to",
        edit(CommitmentLedger.start_growing, "settled_step > self._step", "True"),
        edit(CommitmentLedger.advance, "self._settles[0][0] <= end", "False"),
    ),
    mutant(
        "commitment of the parked",
        "in one line, a preempted sequence stays committed",
        edit(Scheduler.park, "self.ledger.remove(sequence)", "pass"),
    ),
    mutant(
        "committed late",
        "a sequence that returns is not committed again",
        edit(Scheduler.unpark, "self.ledger.add(sequence)", "pass"),
    ),
    mutant(
        "growth forgotten",
        "a row that joins does not begin to grow in the ledger",
        edit(Scheduler.activate, "self.ledger.start_growing(sequence)", "pass"),
    ),
    mutant(
        "crossed a token late",
        "a row crosses the window of its layers one iteration late",
        edit(WindowedContext.sum, "crossings[0][0] <= step", "crossings[0][0] < step"),
    ),
)
