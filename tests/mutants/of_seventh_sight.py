"""The seventh set of mutants that were once kept apart: 16 of 20 were killed at first sight."""

from __future__ import annotations

from schedlab.core import caching, end_tick, lanes, plan, snapshots, swapping, windows
from schedlab.core.scheduler import Scheduler
from schedlab.memory import reserve, workspace
from schedlab.memory.blocks import BlockPool
from schedlab.memory.prefix import CachingBlockPool
from schedlab.memory.snapshots import SnapshotPool
from schedlab.policies.base import Policy
from schedlab.policies.priority import Priority
from schedlab.policies.view import View
from tests.mutants.mutant import Mutant, edit, mutant

MUTANTS: tuple[Mutant, ...] = (
    mutant(
        "seventh 1",
        "keys of blocks that outputs filled are not put into the request's namespace: its own follow-up misses them",
        edit(caching.learn_output_keys, "pool.in_namespace(more, _namespace(core, sequence))", "more"),
    ),
    mutant(
        "seventh 2",
        "a state at the very end of what is known is saved for its session too, and displaces the tail",
        edit(snapshots.after_chunk, "<= end < sequence.num_known", "<= end <= sequence.num_known"),
    ),
    mutant(
        "seventh 3",
        "a preempted sequence that needs exactly the whole pool ends with an error",
        edit(
            end_tick._resume,
            "core.view.prompt_blocks(sequence) > core.pool.total_blocks",
            "core.view.prompt_blocks(sequence) >= core.pool.total_blocks",
        ),
    ),
    mutant(
        "seventh 4",
        "in one line a preempted one goes before an older waiting one of the same key: arrival does not count",
        edit(
            end_tick._is_behind_the_waiting,
            "core.policy.rank(head) < core.policy.rank(sequence)",
            "core.policy.key(head.request) < core.policy.key(sequence.request)",
        ),
    ),
    mutant(
        "seventh 5",
        "the first of several newcomers on an idle device has its first chunk limited as if others computed",
        edit(lanes._start, "len(core.prefilling) == len(core.starting) + 1", "len(core.prefilling) == 1"),
    ),
    mutant(
        "seventh 6",
        "the first token ends a request by max_tokens only, not by the model's length: it gets one token too many",
        edit(
            lanes._sample,
            "sequence.num_outputs >= sequence.max_outputs",
            "sequence.num_outputs >= sequence.request.max_tokens",
        ),
    ),
    mutant(
        "seventh 7",
        "of several who are passed by one admission only the last is counted as bypassed",
        edit(plan._admit, "for bypassed in passed_over:", "for bypassed in passed_over[-1:]:"),
    ),
    mutant(
        "seventh 8",
        "a prompt of max_model_len tokens is refused even where no output is asked for",
        edit(plan._why_never, "(1 if request.max_tokens else 0)", "1"),
    ),
    mutant(
        "seventh 9",
        "a prefill in progress has its cached beginning taken off once more: newcomers get tokens that it will use",
        edit(plan._first_chunk, " and sequence.state is State.PENDING", ""),
    ),
    mutant(
        "seventh 10",
        "a copy of a former image that ends late counts for the image that the sequence has now",
        edit(swapping.copy_ended, "copy.sequence.image is not copy.image", "copy.sequence.image is None"),
    ),
    mutant(
        "seventh 11",
        "blocks of a window that are given up while their copy still reads them are written without waiting for it",
        edit(windows._offload, "        core.pool.keep_open([block], saved)\n", ""),
    ),
    mutant(
        "seventh 12",
        "immunity on return is counted from the first output, not from those that it has: it is over at once",
        edit(Scheduler.resume, "sequence.num_outputs + self.config.immunity_tokens", "self.config.immunity_tokens"),
    ),
    mutant(
        "seventh 13",
        "idle blocks that are emptied while a copy still reads them count as ready",
        edit(
            CachingBlockPool._empty,
            "    if self._open:\n        self._sink(bottom, bottom + missing)\n",
            "",
        ),
    ),
    mutant(
        "seventh 14",
        "what a row held for itself becomes its session's without removing the former entries: they pile up",
        edit(SnapshotPool.settle, "    self._displace(session, snapshot.num_tokens)\n", ""),
    ),
    mutant(
        "seventh 15",
        "the end of an earlier copy takes a later copy's guard from the blocks that both read",
        edit(BlockPool.close, "if self._open.get(block) is ticket:", "if block in self._open:"),
    ),
    mutant(
        "seventh 16",
        "graphs that are larger than the share kept back do not come out of KV: more is planned than there is",
        edit(reserve.plan_memory, " - taken - (needs.graphs_bytes - graphs_kept_back)", " - taken"),
    ),
    mutant(
        "seventh 17",
        "the largest decode graph is left out where the seats (or the limit) are a multiple of 8",
        edit(workspace.captured_sizes, "LARGEST_CAPTURED_ROWS) + 1, 8", "LARGEST_CAPTURED_ROWS), 8"),
    ),
    mutant(
        "seventh 18",
        "what prefills have reserved counts as room for the important one: too few are evicted for it",
        edit(Priority._room_blocks, "view.free_blocks - view.reserved_blocks - ", "view.free_blocks - "),
    ),
    mutant(
        "seventh 19",
        "an owner's blocks that the newcomer finds in the cache count as room that its leaving gives",
        edit(View.room_for, "references(block) == 1 and block not in found", "references(block) == 1"),
    ),
    mutant(
        "seventh 20",
        "immune ones are swapped out for a newcomer when all others are gone",
        edit(Policy._swappable, "        and view.outputs(owner) >= owner.immune_until_outputs\n", ""),
    ),
)
