"""The ninth set of mutants that were once kept apart: 24 of 25 were killed at first sight."""

from __future__ import annotations

from schedlab.core import caching, end_tick, lanes, plan, snapshots, swapping, windows
from schedlab.core.scheduler import Scheduler
from schedlab.memory import reserve
from schedlab.memory.blocks import BlockPool
from schedlab.memory.commitment import CommitmentLedger
from schedlab.memory.prefix import CachingBlockPool
from schedlab.memory.slots import SlotTable
from schedlab.memory.snapshots import SnapshotPool
from schedlab.memory.spill import codec, directory, files
from schedlab.memory.spill.image import ImageHeader
from schedlab.memory.spill.store import SpillStore
from schedlab.policies import registry
from schedlab.policies.base import Policy
from schedlab.policies.presets import Preset
from schedlab.policies.priority import Priority
from schedlab.policies.slai import Slai
from schedlab.policies.view import View
from tests.mutants.mutant import Mutant, edit, mutant

MUTANTS: tuple[Mutant, ...] = (
    # core/caching.py. Block 4, adapter "a", device that knows output keys. R1: 4 prompt tokens, 5 outputs, so 8 tokens
    # are computed and 2 blocks published. R2 of adapter "a" has those 8 tokens and one more as its prompt: 8 cached
    # tokens; with the mutant 4, since the second key is in no namespace. Worse: R3 without adapter ran the same 4
    # prompt tokens (its first block is known in the empty namespace); R4 without adapter, with R1's 8 tokens and one
    # more, then finds R3's first block and adapter "a"'s second.
    mutant(
        "ninth 1",
        "keys of blocks that outputs filled are in no namespace: other adapters, salts and tenants find them",
        edit(caching.learn_output_keys, "keys += pool.in_namespace(more, _namespace(core, sequence))", "keys += more"),
    ),
    # core/end_tick.py. Pool of 8 blocks of 16, resume_headroom_blocks=1, victim=last_in. B (1 block) came first, A (7
    # blocks, 112 computed, 113 known) later. A needs its 8th, none is free, A is preempted. B ends. A needs 8 of 8
    # blocks and is alone: it returns. Mutant: 8 + 1 > 8 for ever; with the inbox closed the run raises Stalled.
    mutant(
        "ninth 2",
        "spare blocks on return are demanded also of a sequence that would be alone on the device",
        edit(
            end_tick._fits,
            "core.config.resume_headroom_blocks if core.free_seats < core.config.max_num_seqs else 0",
            "core.config.resume_headroom_blocks",
        ),
    ),
    # core/lanes.py. fusion=continue, max_prefill_tokens=8, max_num_batched_tokens=64; two prompts of 20 tokens arrive
    # together on an idle device (scheduler.md 14.1, number 4). The first chunk is the whole first prompt, the second
    # prompt gets 8. Mutant: two are prefilling when the first starts, so it gets 8 as well and its first token is
    # late.
    mutant(
        "ninth 3",
        "of newcomers that find an idle device together the first may not use the whole step's budget",
        edit(lanes._start, "len(core.prefilling) == len(core.starting) + 1", "len(core.prefilling) == 1"),
    ),
    # core/plan.py. fusion=all, max_num_batched_tokens=32, max_prefill_tokens=8. A (100 prompt tokens) is prefilling
    # when B (5 tokens) arrives: A takes 8 of the step, 24 are left, B comes in with the very next plan. Mutant: A is
    # thought to take all 32, so B is not admitted until A has fewer than 32 tokens to go, about 9 steps later.
    mutant(
        "ninth 4",
        "what a prefill takes of the next step is counted without the limit of one chunk: newcomers stay out",
        edit(
            plan._first_chunk,
            "return min(left, tokens, core.config.max_prefill_tokens or left)",
            "return min(left, tokens)",
        ),
    ),
    # core/scheduler.py. prefix_cache, preemption=host. A (32 prompt tokens, 2 blocks of 16) is swapped out, and its
    # two old blocks are evicted by a newcomer. Its restore has begun (slow link) when its client cancels. The new
    # blocks have not got their content yet, nothing may be published: B with the same 33-token prompt has 0 cached
    # tokens. Mutant: both blocks get their keys, B has 32 cached tokens and reads what the copy has not written.
    mutant(
        "ninth 5",
        "a sequence that ends while its content is on its way back publishes blocks that are not filled",
        edit(
            Scheduler.end,
            "if state is not State.RESTORING and reason is not FinishReason.ERROR:",
            "if reason is not FinishReason.ERROR:",
        ),
    ),
    # core/snapshots.py. Device with state and output keys, block 16, min 256 tokens, snapshot_decode_blocks=4,
    # interval 0. Turn 1: prompt of 272 (tail split at 240: too short to be saved), 100 outputs, 371 computed; the row
    # holds the state of 320 tokens. It is settled under key 19 (the block that ends at 320), and turn 2 (the 371
    # tokens and one more) starts at 320. Mutant: it is settled under key 22 with num_tokens 320, lookup at depth 320
    # probes key 19, finds nothing, turn 2 has 0 cached tokens.
    mutant(
        "ninth 6",
        "the state that a decode row held is kept under the key of the last full block, not of its own depth",
        edit(
            snapshots.leave,
            "keys[held.num_tokens // core.config.block_size - 1]",
            "keys[sequence.num_computed // core.config.block_size - 1]",
        ),
    ),
    # core/swapping.py. preemption=host, victim=fewest_outputs, immunity_tokens=64. A with 100 outputs is swapped out
    # beside B with 120, and restored. The pool runs out again when A has 105 and B 130: A is immune until 164, so B
    # goes. Mutant: A is immune until 64, that is not at all, and is the victim again (scheduler.md 15, number 46).
    mutant(
        "ninth 7",
        "immunity after a restore counts from the first output instead of from the restore",
        edit(
            swapping._end_restore,
            "sequence.num_outputs + core.config.immunity_tokens",
            "core.config.immunity_tokens",
        ),
    ),
    # core/windows.py. Pool of 8 blocks, window_blocks=8, disk tier on, one long request. At 8 blocks it needs a ninth
    # place: its share is 7, so its oldest block is offloaded and released and it runs on to its end. Mutant: share 8,
    # one block is offloaded but total - share = 0 are released; once the copy has ended nothing is freeing and the
    # request ends with "it holds all 8 blocks of the pool".
    mutant(
        "ninth 8",
        "a window may be as large as the whole pool: a lone long sequence ends with an error instead of sliding",
        edit(
            windows.slide,
            "share = min(core.config.window_blocks, core.pool.total_blocks - AHEAD_BLOCKS)",
            "share = core.config.window_blocks",
        ),
    ),
    # memory/blocks.py. pool = BlockPool(2); table = pool.allocate(2); keep_open([table[0]], t1) (a window's offload);
    # release_after(table, t2) (the row is swapped out); close(t1). Block 0 is still read by t2: it lies at the bottom
    # of the stack, and allocate(2); take_tickets() gives (t2,). Mutant: close(t1) forgets block 0 although t2 reads
    # it; ready_blocks is 1 instead of 0. With allocate(1) after close(t1) for a table of one block: take_tickets()
    # gives () and the next step overwrites the block while it is being saved.
    mutant(
        "ninth 9",
        "the end of one copy of a block also ends the wait for a later copy that still reads it",
        edit(BlockPool.close, "if self._open.get(block) is ticket:", "if block in self._open:"),
    ),
    # memory/commitment.py. admission=commit, block 4, watermark 8 tokens. A: prompt 8, max_tokens 100, so its end is
    # 108. It joins at step 0 with 9 known tokens (would settle at step 91), is preempted at step 10 and joins again at
    # step 30 with 20 known (settles at step 110). At step 91 the heap's first entry is stale and is skipped. Mutant: A
    # is settled then with the old base: it holds 28 while the sum has 23 of it, its end takes 28 off, the sum stays 5
    # too low, and the residues are off for everybody after.
    mutant(
        "ninth 10",
        "a sequence that was preempted stops growing when its first stay would have settled",
        edit(
            CommitmentLedger.advance,
            "if self._growing.get(request_id) == (base, step):",
            "if request_id in self._growing:",
        ),
    ),
    # memory/prefix.py. W waits for a seat with 3 idle cached blocks found (noted at version v). Rows of requests
    # without keys grow and evict the first of these. One of them ends; W is admitted: lookup again finds nothing.
    # Mutant: the version is still v (nothing was published), W holds the three noted blocks, one of which is in
    # another row's table with that row's content; W reports 3 blocks of cached tokens and reads foreign keys and
    # values.
    mutant(
        "ninth 11",
        "an eviction does not count as a change of the cache: noted lookups name blocks that were taken",
        edit(CachingBlockPool._empty, "self.version += 1", "pass"),
    ),
    # memory/reserve.py. Block 16, 1024 KV bytes a token, max_model_len 2048, 8 seats, 1 MiB of state a sequence, 16
    # snapshot slots wanted, 20 MiB left for KV and snapshots. The floor is 8 x 2048 tokens = 16 MiB: 4 slots. Mutant:
    # 8 x 4096 tokens = 32 MiB: no slot (scheduler.md 12: min(4096, max_seq_len)).
    mutant(
        "ninth 12",
        "the KV floor beside snapshots is 4096 tokens a seat also for a model whose sequences are shorter",
        edit(
            reserve._snapshot_slots,
            "blocks_for(min(KV_FLOOR_TOKENS, needs.max_model_len), needs.block_size)",
            "blocks_for(KV_FLOOR_TOKENS, needs.block_size)",
        ),
    ),
    # memory/slots.py. Device with state, 3 seats. A has slot 0, B slot 1. A is swapped out (a copy uses slot 0), B
    # ends: slots 0 and 1 are free, 0 is open. C comes and gets 1. Mutant: slot 0, passed over on the way, is lost. D
    # gets 2; E takes the third seat: "all 3 slots are owned" though two are.
    mutant(
        "ninth 13",
        "a free slot that a copy uses is lost when a newcomer passes it over for another one",
        edit(SlotTable._take_closed, "for one in passed:", "for one in passed if slot is None else ():"),
    ),
    # memory/snapshots.py. pool.save(k1, 352, "s"); pool.hold(7, 384); pool.settle(7, k2, "s"): the new tail of 384
    # tokens is no block above 352, so the former one goes and used_slots is 1. Mutant: both stay; save(k0, 320, "s")
    # before, or one more settle, makes three entries of one session, where it may have its tail and the sibling one
    # block below.
    mutant(
        "ninth 14",
        "a held state that becomes a session's tail leaves the session's former entries in their slots",
        edit(SnapshotPool.settle, "self._displace(session, snapshot.num_tokens)", "pass"),
    ),
    # memory/spill/codec.py. Two images of equal size in the disk tier; the operator's restore of a backup exchanges
    # the two files. get(first) raises CorruptImage: "lies another image". Mutant: the file's own checksum holds, so
    # get(first) returns the second sequence's header and KV, and one user reads the other's text.
    mutant(
        "ninth 15",
        "a sound file of another image is accepted in place of the one that was put",
        edit(codec.verify, "if stated != image.checksum.encode():", "if len(stated) != len(image.checksum):"),
    ),
    # memory/spill/directory.py. mkdir -m 0750 spill; SpillStore(0, 1 << 20, spill) raises UsageError "is not private
    # (mode 0750 ...)". Mutant: it is taken, and the group may list and enter it. (0755 is still refused.)
    mutant(
        "ninth 16",
        "a spill directory that its group may enter counts as private",
        edit(directory._check_private, "found.st_mode & 0o077", "found.st_mode & 0o007"),
    ),
    # memory/spill/files.py. An operator keeps "schedlab-image-3.safetensors.bak" in the spill directory. Taking or
    # leaving the directory lets it be. Mutant: match() is content with the beginning of the name, the file is deleted.
    mutant(
        "ninth 17",
        "files whose names only begin like an image's are deleted",
        edit(files.remove_all_own, "OWN_NAME.fullmatch(name)", "OWN_NAME.match(name)"),
    ),
    # memory/spill/image.py. nested = []; for _ in range(100_000): nested = [nested]. put(HOST, header with
    # sampler={"grammar": nested}, {}) raises UsageError "its header is not JSON". Mutant: RecursionError, which no
    # caller of put expects, ends the run.
    mutant(
        "ninth 18",
        "a header nested too deeply for JSON is no UsageError but a RecursionError",
        edit(ImageHeader.to_json, "(TypeError, ValueError, RecursionError)", "(TypeError, ValueError)"),
    ),
    # memory/spill/store.py. Two stores (two replicas in one process); each has an image 0, of requests "a" and "b".
    # second.get(handle of the first) raises ImageVanished. Mutant: it returns the image of "b": _verified compares
    # with the handle that the store itself holds. The same for tier() and move().
    mutant(
        "ninth 19",
        "a handle that another store gave is answered with the image that has its number here",
        edit(SpillStore._find, "if held is None or held.image != image:", "if held is None:"),
    ),
    # policies/base.py. swap_at_admission, preemption=host, no watermark. 6 blocks are free, of which 5 are reserved by
    # a prefill in progress; a row R holds 10, not immune. N needs 4: refused (4 > 1), missing 3, R is swapped out and
    # N comes in at once. Mutant: missing -2, nobody is asked to leave, N waits until somebody ends.
    mutant(
        "ninth 20",
        "swap-out at admission takes blocks that prefills have reserved for free ones, so nobody leaves",
        edit(
            Policy.make_way,
            "missing_blocks -= view.free_blocks - view.reserved_blocks",
            "missing_blocks -= view.free_blocks",
        ),
    ),
    # policies/presets.py. Preset orca (whole prompts, 32 seats), max_model_len 2048, 10 rows decode, a prompt of 2047
    # tokens comes. Budget 2080 - 10 = 2070: it is computed in the next step. Mutant: 2048 - 10 = 2038 < 2047, it may
    # not be cut, so it and all behind it wait until at most one row is left.
    mutant(
        "ninth 21",
        "a step for whole prompts has no room for decode rows beside the longest prompt",
        edit(Preset.configuration, 'max_model_len + fields["max_num_seqs"]', "max_model_len"),
    ),
    # policies/priority.py. evict, admission=commit, resume=in_line, pool of 100 blocks, overcommit_percent=150, 140
    # committed by seven owners of class 5 with 20 each. A request of class 0 needs 20: room 10, one owner leaves.
    # Mutant: room -40, three owners leave. With three owners of 50 (of which two are of class 0) it is refused though
    # one eviction would do.
    mutant(
        "ninth 22",
        "evicting for an important request forgets the overcommit, so that too many leave or nobody may",
        edit(
            Priority._room_blocks,
            "view.total_blocks * self.config.overcommit_percent // 100 - view.committed_blocks",
            "view.total_blocks - view.committed_blocks",
        ),
    ),
    # policies/registry.py. --policy priority --set evict=True. The value passes the check, and evict is true. Mutant:
    # "True" is in the list only in small letters: evict is false, without a word. The same for prefix_cache=ON.
    mutant(
        "ninth 23",
        "a flag set to True, YES or ON is taken as false",
        edit(registry._parse, 'return text.lower() in ("true"', 'return text in ("true"'),
    ),
    # policies/slai.py. slai, tbt_deadline_ms=100, fusion=continue. Row R got a token at 0; a newcomer's first chunk
    # runs alone for 85 ms; then CONTINUE_DECODE asks for tokens: 85 >= 80, none, the step is a decode alone. Mutant:
    # 85 < 100, the newcomer's second chunk is fused with it, and R's token comes after the deadline (scheduler.md 4.1:
    # 0.8 x).
    mutant(
        "ninth 24",
        "prefill is held back only when the deadline has passed, without the margin",
        edit(
            Slai.__init__,
            "tbt_deadline_ms * 1_000_000 * MARGIN_PERCENT // 100",
            "tbt_deadline_ms * 1_000_000",
        ),
    ),
    # policies/view.py. priority with evict, prefix_cache, pool of 8. X (class 0) holds 3 blocks, V (class 5) 5, none
    # is free. N (class 0) has a prompt of 6 blocks, the first 4 are V's. It misses 2, V's leaving gives it 1 more than
    # what it finds: V stays. Mutant: V counts as 5, is evicted, its 4 shared blocks are idle now and N needs 6 of 5
    # free: it is refused, and V was preempted for nothing.
    mutant(
        "ninth 25",
        "blocks that a newcomer finds in a victim's table count as room that the victim's leaving makes",
        edit(
            View.room_for,
            "references(block) == 1 and block not in found for block",
            "references(block) == 1 for block",
        ),
    ),
)
