"""The eighth set of mutants that were once kept apart: 21 of 25 were killed at first sight."""

from __future__ import annotations

from schedlab.core import lanes, plan, swapping, windows
from schedlab.core.limits import OutputLimits
from schedlab.core.scheduler import Scheduler
from schedlab.memory.snapshots import SnapshotPool
from schedlab.memory.spill import codec
from schedlab.memory.spill.store import SpillStore
from schedlab.memory.swap import SwapSpace
from schedlab.policies import registry
from schedlab.policies.base import Policy
from schedlab.policies.presets import Preset
from schedlab.policies.slai import Slai
from schedlab.policies.view import View
from tests.mutants.mutant import Mutant, edit, mutant

MUTANTS: tuple[Mutant, ...] = (
    # A device that wants dense slots, 4 seats: A, B, C decode in slots 0, 1, 2 and D, a long prompt, prefills in slot
    # 3. A ends. Two rows are left, so C has to move from 2 to 0. Here the limit is 3 and C stays in slot 2.
    mutant(
        "eighth 1",
        "compaction counts the prefilling sequences too, and leaves rows in slots that are not dense",
        edit(Scheduler.compact_slots, "len(self.batch.rows)", "len(self.batch.rows) + len(self.prefilling)"),
    ),
    # Blocks of 16, min_tokens 256, one prompt of 512 tokens. Session a's turn saves its state at 480 under key k.
    # Session b sends the same prompt: it may not use a's, computes all, and comes to k. It should save the state as
    # its own; here refresh("k", "b") says that there is one, and b's next turn finds no snapshot and computes from the
    # first token.
    mutant(
        "eighth 2",
        "a snapshot of another session counts as one's own, so the state is not saved for the session that has it now",
        edit(SnapshotPool.refresh, "known is None or not _may_use(known, session)", "known is None"),
    ),
    # slai, one seat, taken. A prompt of 1,000 tokens comes first, then a prompt of 10 tokens every time a seat falls
    # free. The long one is the front and is next; here it waits for as long as shorter ones come.
    mutant(
        "eighth 3",
        "slai takes the shortest prompt first, and the oldest request starves",
        edit(
            Slai.waiting_queue,
            "return FrontThenShortest()",
            "from schedlab.policies.queues import KeyedQueue\n\n"
            "    return KeyedQueue(lambda sequence: (sequence.num_prompt_tokens, sequence.arrival_index))",
        ),
    ),
    # Blocks of 16, a pool of 7, victims by priority, preemption to the host, one mixed step. B (priority 5) decodes
    # and has 16 tokens in 1 block; C (priority 0) has computed 80 of 96 tokens in 5. B gets the last free block for
    # this step, then C's chunk needs one: B goes. Its image is 1 block; here it is 2 (SwappedOut.num_blocks,
    # num_bytes), and after its return B has 3 blocks for 17 tokens.
    mutant(
        "eighth 4",
        "the block that a victim got for the step stays in its table, and is saved and restored with it",
        edit(
            lanes._take_back_growth,
            "core.in_flight_growing.remove(victim)\n        core.pool.release([victim.block_table.pop()])",
            "core.in_flight_growing.remove(victim)",
        ),
    ),
    # Two rows fill a pool, one is preempted for the other's next block. From the next tick on admission is open again;
    # here `make` never admits again, and a request that comes when both have ended waits for ever.
    mutant(
        "eighth 5",
        "a preemption closes admission for good, not for its tick",
        edit(plan.begin, "core.progress = core.evicted = False", "core.progress = False"),
    ),
    # preemption=disk, 1 GiB of disk, no host tier. A sequence of 10 MiB goes to disk and comes back. Then 0 bytes are
    # taken of both; here 10 MiB of the disk and -10 MiB of the host, so that the next image may go to a tier that is
    # off, and after 102 swaps the disk is full of nothing.
    mutant(
        "eighth 6",
        "what an image took of the disk is given back to the host tier",
        edit(SwapSpace.give_back, "self.used_bytes[tier]", "self.used_bytes[Tier.HOST]"),
    ),
    # Preset met (first chunks alone, later ones beside decode; 8,200 tokens). A prompt of 30,000 tokens has computed
    # 8,192 of them when a prompt of 20 comes. It starts in the next plan; here the long one's 21,808 tokens leave it
    # nothing, and it waits until fewer than 8,200 of them are left.
    mutant(
        "eighth 7",
        "prefills in progress take tokens from newcomers that start in a step of their own",
        edit(plan._tokens_for_newcomers, "core.config.fusion is not Fusion.ALL", "core.config.fusion is Fusion.NONE"),
    ),
    # Preset orca, max_model_len 2048. Two rows decode and have 1,000 outputs to go; a prompt of 2,047 tokens comes. A
    # step has 2,080 tokens, 2,078 beside the rows, and it comes in at once; here 2,048 and 2,046: it is blocked, and
    # everybody behind it, until a row ends.
    mutant(
        "eighth 8",
        "a step for whole prompts has no room for the decode rows beside the longest prompt",
        edit(Preset.configuration, 'max_model_len + fields["max_num_seqs"]', "max_model_len"),
    ),
    # Blocks of 16, a prompt of 1,024 tokens in chunks of 256. After the second chunk the same prompt comes again: 32
    # blocks can be found; here none until the last chunk. On a device with state: a prompt of 512 is cut at 480 for
    # the snapshot, which is not taken here (the chunk does not sample), so the session's next turn starts from
    # nothing.
    mutant(
        "eighth 9",
        "chunks that are not the last one of their prompt are neither published nor saved",
        edit(
            lanes._advance_chunk,
            "    if sequence.has_keys:\n"
            "        publish_prompt(core, sequence)\n"
            "        snapshots.after_chunk(core, sequence)\n"
            "    if not chunk.samples:\n"
            "        return\n",
            "    if not chunk.samples:\n"
            "        return\n"
            "    if sequence.has_keys:\n"
            "        publish_prompt(core, sequence)\n"
            "        snapshots.after_chunk(core, sequence)\n",
        ),
    ),
    # A store with a disk tier; a put raises TierFull; close. The directory is gone and free; here the failed put is
    # still in flight, so directory and lock stay, and a new store there is refused ("held by process ...").
    mutant(
        "eighth 10",
        "an operation that fails never ends, so a closed store does not leave its directory",
        edit(SpillStore._operation, "finally:", "else:"),
    ),
    # A hybrid model: blocks of 1 MiB, a state of 50 MiB, 1 GiB of host tier. A victim of 4 blocks takes 54 MiB, and 18
    # of them fill the tier; here 4 MiB (SwappedOut.num_bytes, the copy's bytes and time), and 256 of them are let in.
    mutant(
        "eighth 11",
        "an image's size leaves out the state beside the blocks",
        edit(
            swapping.image_bytes,
            "len(owner.block_table) * facts.block_bytes + facts.state_bytes",
            "len(owner.block_table) * facts.block_bytes",
        ),
    ),
    # First chunks alone, leap on. A decodes and has 500 outputs to go; nobody waits. X with max_tokens=1 comes and
    # ends with its prompt in the lane START; the tick's next lane decodes. X retires after one iteration; here the
    # device repeats 500 times first, and X's end (seat, blocks, Finished) is 500 iterations late. Without leap it is
    # not.
    mutant(
        "eighth 12",
        "a run of decode steps begins though a sequence that has ended waits for the end of the tick",
        edit(
            lanes._plans_would_repeat,
            "len(core.inbox) or core.prefilling or core.ending",
            "len(core.inbox) or core.prefilling",
        ),
    ),
    # A request with a deadline of 1 s is preempted at 0.5 s and parked till 2 s. It ends at 1 s with "timeout"; here
    # its entry is taken off the heap and it goes on at 2 s, to end with "length".
    mutant(
        "eighth 13",
        "the deadline of a parked sequence is forgotten when it passes",
        edit(
            plan._end_overdue,
            "if sequence.state is not State.FINISHED:",
            "if sequence.state in (State.PENDING, State.PREFILLING, State.ACTIVE):",
        ),
    ),
    # Two images of the same size lie on disk, and their files change places. `get` of either raises CorruptImage; here
    # each file's own checksum holds, and one request goes on with the other's keys and values.
    mutant(
        "eighth 14",
        "another image in the place of one is taken for it",
        edit(
            codec.verify,
            "    if stated != image.checksum.encode():\n"
            '        raise CorruptImage(f"in place of image {image.image_id} of {image.request_id} lies '
            'another image")',
            "",
        ),
    ),
    # 3 slots: save P for everybody (1), A of session a (2), B of session b (3); refresh(P's key, "a") (4); save C of
    # session c. Session a was used at 4, b at 3: B goes. Here a counts as used at 2, and A goes.
    mutant(
        "eighth 15",
        "a session that uses a snapshot of everybody's does not count as used",
        edit(
            SnapshotPool._touch,
            "self._use_session(session, snapshot.recency)",
            "self._use_session(snapshot.session, snapshot.recency)",
        ),
    ),
    # Without leap. X joins at step 10 and may have 100 more outputs: its entry is at 110. It is preempted at 20 and
    # joins again at 50 with 90 to go: a second entry at 140. At step 110 the old entry is of no account (another
    # row_index); here X ends with "length" 30 outputs early.
    mutant(
        "eighth 16",
        "a row that came back ends at the limit of its former stay",
        edit(OutputLimits.reached, "self._is_live(entry)", "entry[2] in self._batch.rows"),
    ),
    # A pool of 4 blocks of 16, alone a request with a prompt of 16 and max_tokens 200. Its error says that it holds
    # all 4 blocks "after 49 outputs"; here "after 1 outputs", what it had when it joined the batch.
    mutant(
        "eighth 17",
        "the error of a sequence that fills the pool tells a stale number of outputs",
        edit(plan._end_too_large, "core.batch.outputs(sequence)", "sequence.num_outputs"),
    ),
    # fifo, resume=in_line. A (first to arrive) is preempted while W waits. When blocks fall free A returns before W;
    # here W, never admitted, ranks before whoever was, so W comes in first, and so does everyone who comes while A is
    # parked.
    mutant(
        "eighth 18",
        "the place in line is that of the last admission, so a preempted sequence is behind all who wait",
        edit(Policy.rank, "sequence.arrival_index", "sequence.admission_index"),
    ),
    # depth_weight 1, 2 slots, both for everybody: P of 4,096 tokens (1), Q of 256 tokens (2); then a third is saved. Q
    # (258) is evicted before P (4,097); here P, the older one, whatever the weight.
    mutant(
        "eighth 19",
        "the depth of a snapshot without a session does not count in the order of eviction",
        edit(
            SnapshotPool._rank,
            "self._session_used.get(snapshot.session, score)",
            "self._session_used.get(snapshot.session, snapshot.recency)",
        ),
    ),
    # A device with tokens, min_tokens=1, and the first token is an end-of-sequence id. It ends with "stop" and 1
    # output; here the test sees 0 outputs, fewer than 1, and the sequence decodes on. (A plain decode row is tested
    # rightly.)
    mutant(
        "eighth 20",
        "the token of a prompt's end is tested for a stop before it is counted, so min_tokens is one too many there",
        edit(
            lanes._sample,
            "sequence.num_outputs += 1\n    sequence.last_token_ns = now_ns",
            "sequence.last_token_ns = now_ns",
            "if stopped or sequence in result.ended:",
            "sequence.num_outputs += 1\n    if stopped or sequence in result.ended:",
        ),
    ),
    # A policy of the user's own whose `admit` says no before 1 s. One row decodes for 10 s, and a request waits.
    # Stepping, it comes in at 1 s; here (leap on) the device repeats until the row ends, and it comes in at 10 s.
    mutant(
        "eighth 21",
        "a policy that says nothing about the clock is taken to decide the same for ever",
        edit(Policy.stable_until_ns, "return view.now_ns", "return FOREVER_NS"),
    ),
    # Windows on, a single sequence, and a disk tier that its own blocks have filled. It comes to hold the whole pool
    # and needs one block more; no copy is under way. It ends with an error; here it is thought to be freeing blocks
    # and waits for ever (Stalled when the inbox is closed).
    mutant(
        "eighth 22",
        "a row whose window has no copy under way is waited for",
        edit(windows.is_freeing, "row.window.has_open_copies", "not row.window.is_stuck"),
    ),
    # A policy of the user's own that calls super().__init__(replace(config, max_bypass=3)). It is refused with a
    # UsageError; here it is taken, and policy and scheduler go by different configurations.
    mutant(
        "eighth 23",
        "a policy that keeps another configuration than it was given is accepted",
        edit(
            registry._made, 'getattr(policy, "config", None) is not config', 'getattr(policy, "config", None) is None'
        ),
    ),
    # policy_for(config, "priority", {"evict": "false"}): nobody is evicted; here bool("false") is true, and a refused
    # request preempts less important owners. {"tbt_deadline_ms": "x"} of slai is a ValueError and no UsageError.
    mutant(
        "eighth 24",
        "a policy's settings for a made configuration are not read as `build` reads them: evict=false is true",
        edit(registry.policy_for, "_parse(key, text, own[key])", "own[key](text)"),
    ),
    # Blocks of 16, a pool of 10: a row holds 6, and 4 idle blocks have the beginning of a prompt of 96 tokens (6
    # blocks). It needs all 6 of the 4 free ones (taking the idle ones uses them up), so it waits. Here it needs 2 and
    # is admitted, takes the 4, finds no block for the rest, and is preempted again and again.
    mutant(
        "eighth 25",
        "cached blocks that lie idle count as no need, though they are among the free ones",
        edit(View.missing_blocks, "sum(map(self._core.pool.is_held, found))", "len(found)"),
    ),
)
