"""Mutants that were written without a look at the attacks, and for which no attack was made afterwards."""

from __future__ import annotations

from schedlab.core import end_tick, lanes, plan, stops, swapping, windows
from schedlab.core.scheduler import Scheduler
from schedlab.core.snapshots import SnapshotSchedule
from schedlab.memory.blocks import BlockPool
from schedlab.memory.commitment import CommitmentLedger
from schedlab.memory.prefix import CachingBlockPool
from schedlab.memory.slots import SlotTable
from schedlab.memory.snapshots import SnapshotPool
from schedlab.memory.spill import files
from schedlab.memory.spill.store import SpillStore
from schedlab.memory.window import Window
from schedlab.policies import registry
from schedlab.policies.base import Policy
from schedlab.policies.priority import Priority
from schedlab.policies.slai import Slai
from schedlab.policies.view import View
from tests.mutants.mutant import Mutant, edit, mutant

APART: tuple[Mutant, ...] = (
    # priority with evict, admission=commit, resume=in_line, watermark_tokens=0, blocks of 4, pool of 30. L (priority
    # 9, prompt 4) has 60 outputs and commits 17; H (priority 0) commits 20. Room is 13 + 17 >= 20, so L leaves. Wrong:
    # L's `num_known` is still the 5 of when it joined, which is 2 blocks, 13 + 2 < 20, and H waits until L ends.
    mutant(
        "apart 1",
        "an owner's end is valued at the commitment it had when it joined the batch, so evict finds too little",
        edit(View.held_commitment, "ledger.held_by(owner)", "self.commitment(owner)"),
    ),
    # window_blocks=3, blocks of 4, prompt of 16: two blocks are offloaded at once. The write of block 0 fails, that of
    # block 1 ends well. Right: stuck, nothing leaves. Wrong: offloaded = 1 and block 0 leaves, which is nowhere on
    # disk.
    mutant(
        "apart 2",
        "the success of a later copy counts after an earlier one of the window failed: the unsaved block leaves",
        edit(windows.offload_ended, "elif not window.is_stuck:", "else:"),
    ),
    # Device with a state and dense slots, 5 seats, slots 0 to 4. Rows 0 and 1 are swapped out in the tick in which row
    # 4 ends; their copies still read slots 0 and 1. Survivors 2 and 3, limit 2. Right: nobody moves. Wrong: 0 is
    # passed, 1 is taken, and the state of row 2 is moved over what the copy of row 1 reads.
    mutant(
        "apart 3",
        "only the first slot that a copy uses is passed over, so a row may be moved into the second",
        edit(SlotTable._take_closed, "while free and free[0] in self._open:", "if free and free[0] in self._open:"),
    ),
    # fifo, prefix cache, fusion=none, blocks of 4, pool of 8, leap. A has 16 tokens, B the same 16 and one more; both
    # come at once. B is refused (5 > 8 - 4); A's prompt is computed and published, so B needs 1 block and the next
    # plan admits it. Wrong: A's first decode step is repeated until its blocks or its limit end, and B waits for all
    # of that.
    mutant(
        "apart 4",
        "a run of decode steps goes on although what refused the waiting has changed since (a published prefix)",
        edit(
            lanes._plans_would_repeat,
            "    if len(core.waiting) and core.refused_at != core.changes:\n        return False\n",
            "",
        ),
    ),
    # `--set prefix_cache=True` or `=ON`: passes the check of the values, and is false.
    mutant(
        "apart 5",
        "a boolean setting with a capital letter (True, Yes) is accepted and read as false",
        edit(registry._parse, "return text.lower() in", "return text in"),
    ),
    # Two slots: save(key, 256) gives slot 0; hold(7, 512) slot 1; hold(7, 768): the former entry of 7 makes room and
    # the first one stays. Wrong: the first one is the stalest and is evicted (num_evicted 1, lookup finds nothing).
    mutant(
        "apart 6",
        "a running row's new state takes a slot before its former one is given back: another's is evicted for it",
        edit(
            SnapshotPool.hold,
            "    self.drop(owner)\n    slot = self._take_slot()\n",
            "    slot = self._take_slot()\n    self.drop(owner)\n",
        ),
    ),
    # max_num_batched_tokens=16, prompt of 10, preempted by recompute after 30 outputs: 40 known tokens. Its first
    # chunk 0..16 passes the end of the prompt. Wrong: it samples an output there and joins the batch with 24 tokens
    # missing.
    mutant(
        "apart 7",
        "a chunk samples once it reaches the end of the prompt, though the sequence has known outputs to compute again",
        edit(
            lanes._chunk,
            "Chunk(sequence, start, count, count == left)",
            "Chunk(sequence, start, count, start + count >= sequence.num_prompt_tokens)",
        ),
    ),
    # priority with evict, preemption=host, prefix cache, two seats, blocks of 4, pool of 16, a link that takes longer
    # than many steps. A and B (prompts of 16, 5 blocks each); C of a better class takes A's seat: A's 4 keyed blocks
    # are idle and still read by its copy, its fifth is empty and open. B and C decode with one ready block left.
    # Wrong: they are granted a run over 4 more, which writes into A's blocks while the copy reads them, with no ticket
    # to wait for.
    mutant(
        "apart 8",
        "idle blocks count as ready while copies are open, so a run of steps gets blocks that a copy still reads",
        edit(
            BlockPool.ready_blocks,
            "return len(self._free) - self._num_open_empty if self._open else self.free_blocks",
            "return self.free_blocks - self._num_open_empty",
        ),
    ),
    # resume=smallest, blocks of 16. Parked: A, prompt 16 and 200 outputs (14 blocks), and B, prompt 64 and 2 outputs
    # (5 blocks); 7 are free. Right: B returns. Wrong: A is first and does not fit, so nobody returns.
    mutant(
        "apart 9",
        "the smallest of the preempted is the one with the shortest prompt, whatever it has put out since",
        edit(
            Policy.resume_key,
            "return view.prompt_blocks(sequence), sequence.arrival_index",
            "return sequence.num_prompt_tokens, sequence.arrival_index",
        ),
    ),
    # window_blocks=3, blocks of 4, pool of 7, fast copies; A has a prompt of 10, B of 9: 3 blocks each, their first
    # ones safe on disk. Third decode step: A takes the last free block. Fourth: right, A's first block leaves and B
    # gets it. Wrong: B is preempted for want of a block, and then A's leaves.
    mutant(
        "apart 10",
        "room for decoding is made before the windows slide: somebody is preempted for blocks that were about to leave",
        edit(
            plan.make_room_for_decoding,
            "        if core.config.window_blocks:\n            slide(core)\n"
            "        if len(batch.growing(0)) <= core.pool.free_blocks:\n            return evicted\n",
            "        if len(batch.growing(0)) <= core.pool.free_blocks:\n"
            "            if core.config.window_blocks:\n                slide(core)\n            return evicted\n",
        ),
    ),
    # put on the host, move to the disk, get: the file that was just written is erased, ImageVanished; usage(HOST)
    # stays at the image's size and usage(DISK) is 0.
    mutant(
        "apart 11",
        "what a moved image was before is the same object as what it is now: its new copy is erased, not its old one",
        edit(SpillStore._relocate, "old = replace(held)", "old = held"),
    ),
    # stop sequence (7, 8), min_tokens=2, outputs 7, 8: ends at the second. Wrong: 7 was never fed, so it goes on to
    # max_tokens.
    mutant(
        "apart 12",
        "tokens below min_tokens are not fed to the stop matcher: a stop sequence that begins among them is missed",
        edit(
            stops.ends,
            "    matched = request.stop is not None and request.stop.feed(token)\n",
            "",
            "    return matched or",
            "    matched = request.stop is not None and request.stop.feed(token)\n    return matched or",
        ),
    ),
    # victim=last_in, immunity_tokens=2: A resumed with 5 outputs (immune until 7) after B was admitted. Both have room
    # trouble when A has 7: right, A goes; wrong, B does.
    mutant(
        "apart 13",
        "a resumed sequence is immune for one output more than the configuration says",
        edit(Policy._not_immune, ">= one.immune_until_outputs", "> one.immune_until_outputs"),
    ),
    # Device with a state, blocks of 16, snapshot_decode_blocks=1, snapshot_min_tokens=16, no interval; prompt of 32, 5
    # outputs. Right: no row is due before 48 tokens. Wrong: it is due at once, so after the first iteration the state
    # of 33 tokens is saved as that of 32; the row ends, and a prompt that begins with those 32 goes on from it.
    mutant(
        "apart 14",
        "a row that joins on a boundary is due at once: the state one token further is saved under that boundary",
        edit(
            SnapshotSchedule.add,
            "self._every_tokens - sequence.joined_len % self._every_tokens",
            "-sequence.joined_len % self._every_tokens",
        ),
    ),
    # Prefix cache: a prompt without an adapter, then the same one with adapter "x". Right: nothing is cached for the
    # second. Wrong: its namespace is number 0, whose keys are those of no namespace, and it reads the first's blocks.
    mutant(
        "apart 15",
        "the first adapter, salt or tenant shares its blocks with requests that have none",
        edit(CachingBlockPool.in_namespace, "len(self._namespaces) + 1", "len(self._namespaces)"),
    ),
    # preemption=disk, room on the host; the write of a parked sequence's image fails. Right: it stays on the host.
    # Wrong: it counts there but is still said to be on disk: its restore stages a file that was never written, and the
    # end gives the disk's bytes back a second time (used -n) and the host's never.
    mutant(
        "apart 16",
        "an image whose write failed is charged to the host but keeps the disk as its tier",
        edit(swapping._lose_image, "        image.tier = Tier.HOST\n", ""),
    ),
    # priority with evict, prefix cache, pool of 10. M (priority 0) holds 5 blocks, O (priority 9) 4 of a prefix and 1;
    # N (priority 1) has 6 blocks, of which it finds O's 4: it needs 2. Right: O's end gives 1, so nobody leaves.
    # Wrong: 5, O is preempted, and N, who now needs 6 of 5 free blocks, is still refused.
    mutant(
        "apart 17",
        "blocks that the newcomer itself would use from the cache count as room that their owner's end makes",
        edit(View.room_for, "references(block) == 1 and block not in found for", "references(block) == 1 for"),
    ),
    # admission=commit, watermark_tokens=8, blocks of 4; prompt 4, max_tokens 20, alone, a run of 19 iterations: base
    # 13, its end at step 11, so 4 blocks grow to 7. Wrong: the sum stays 4 while the sequence holds 7, and it is -3
    # after its end: from then on 3 blocks too many are admitted.
    mutant(
        "apart 18",
        "a sequence that reaches its end inside a run is settled before the growth up to there has been counted",
        edit(CommitmentLedger.advance, "            self._run_to(step)\n", ""),
    ),
    # Device with a state, preemption=host, many free blocks. A is being restored into slot 0 and is cancelled; B is
    # admitted in the same tick, gets slot 0 and other blocks. Right: B's first step waits for A's copy. Wrong: slot -1
    # was kept open, B's step does not wait, and A's copy writes A's state over B's.
    mutant(
        "apart 19",
        "a restoring sequence's slot is released before it is kept open, so what is kept open is no slot at all",
        edit(
            Scheduler.unseat,
            "        self.slots.keep_open(sequence.slot, self.restoring[sequence])\n    self.slots.release(sequence)\n",
            "        ticket = self.restoring[sequence]\n"
            "        self.slots.release(sequence)\n"
            "        self.slots.keep_open(sequence.slot, ticket)\n"
            "    else:\n"
            "        self.slots.release(sequence)\n",
        ),
    ),
    # slai, tbt_deadline_ms=100, fusion=none: a first chunk runs alone for 90 ms while a row is active and another
    # prompt is in progress. Right: compose gives 0 (90 >= 80), so the row decodes next. Wrong: another chunk first.
    mutant(
        "apart 20",
        "the gate closes at the whole deadline between tokens and not at 80 % of it",
        edit(Slai.__init__, "tbt_deadline_ms * 1_000_000 * MARGIN_PERCENT // 100", "tbt_deadline_ms * 1_000_000"),
    ),
    # A tensor of 3 GiB: Linux takes 2,147,479,552 bytes of one write. Right: the rest follows. Wrong: ShortWrite,
    # every time. (Or any os.write that takes a part of what it is given.)
    mutant(
        "apart 21",
        "a write that took a part of the bytes is not continued",
        edit(files._fill, "while rest:", "if rest:"),
    ),
    # A policy of one's own, a Policy (not a StaticPolicy) whose admit says no before time T; resume=in_line. A is
    # preempted for B, C ends and makes room for A before T, B goes on long after T. Right: A returns at the end of the
    # first tick after T. Wrong: "refused until for ever" is left from the start, and A waits until B ends.
    mutant(
        "apart 22",
        "the time until which the refusal of the preempted holds is not noted: a policy's clock never lets them in",
        edit(
            end_tick._resume,
            "            core.parked_refused_until_ns = core.policy.stable_until_ns(core.view)\n",
            "",
        ),
    ),
    # priority with evict, admission=prompt, pool of 10: P (priority 0) is prefilling, holds 4 and has 3 reserved; L
    # (priority 9) holds 2; 4 are free. N (priority 1) needs 5. Right: 4 - 3 + 2 < 5, nobody leaves. Wrong: 4 + 2 >= 5,
    # L is preempted, and N is refused all the same (5 > 6 - 3).
    mutant(
        "apart 23",
        "evict counts free blocks that prefills in progress have reserved: victims leave and the newcomer stays out",
        edit(
            Priority._room_blocks,
            "view.free_blocks - view.reserved_blocks - self.config.watermark_blocks",
            "view.free_blocks - self.config.watermark_blocks",
        ),
    ),
    # window_blocks=3, blocks of 4, pool of 4, one long request; the first write to disk fails. Right: it ends with the
    # error that it holds all blocks. Wrong: requested 1 > offloaded 0 for ever, so it waits for a copy that has ended:
    # the request hangs, or Stalled once the inbox is closed.
    mutant(
        "apart 24",
        "a window whose copy failed still counts as about to free a block",
        edit(Window.has_open_copies, " and not self.is_stuck", ""),
    ),
    # Preset met (fusion=continue). A, 30,000 tokens, has had its first chunk; B, 100 tokens, arrives with seats and
    # blocks free. Right: B starts in that tick, alone. Wrong: A's 21,808 tokens left use up the budget, and B is
    # admitted only when A's last chunk is due.
    mutant(
        "apart 25",
        "with fusion=continue, too, prefills in progress take the tokens of newcomers, who have a step of their own",
        edit(plan._tokens_for_newcomers, "core.config.fusion is not Fusion.ALL", "core.config.fusion is Fusion.NONE"),
    ),
)
