"""When states of recurrent layers are saved and restored, for devices whose sequences carry one.

A state is saved at ends of chunks that `cut_chunk` has put there, every few blocks of a decode row, and when a sequence
leaves its seat on a block boundary. A row's own snapshot can be found only when its blocks can: once it leaves. So no
lookup finds more while a run of decode steps goes on, and a run saves in the order in which single steps would.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush, heapreplace
from typing import TYPE_CHECKING

from schedlab.batch import DecodeBatch
from schedlab.config import SchedulerConfig
from schedlab.core import caching
from schedlab.core.limits import SLACK_ENTRIES, Entry
from schedlab.device import DeviceFacts
from schedlab.errors import UsageError
from schedlab.memory.snapshots import SnapshotPool
from schedlab.sequence import Sequence

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler


def pool_for(config: SchedulerConfig, facts: DeviceFacts) -> SnapshotPool | None:
    """The pool of a device whose sequences carry a state; None where blocks are all there is, or nothing is cached.

    Raises:
        UsageError: slots are asked for on a device whose sequences carry none.
    """
    if config.snapshot_slots and not facts.state_bytes:
        raise UsageError(
            f"snapshot_slots is {config.snapshot_slots}, and sequences on {facts.name} carry no state; leave it out"
        )
    if not facts.state_bytes or not config.prefix_cache:
        return None
    return SnapshotPool(
        config.snapshot_slots, config.block_size, config.snapshot_min_tokens, config.snapshot_depth_weight
    )


def schedule_for(config: SchedulerConfig, pool: SnapshotPool | None, batch: DecodeBatch) -> SnapshotSchedule | None:
    """When decode rows are saved; None if never."""
    if pool is None or not pool.num_slots or not config.snapshot_decode_blocks:
        return None
    return SnapshotSchedule(batch, config.snapshot_decode_blocks * config.block_size)


def cut_chunk(core: Scheduler, sequence: Sequence, start: int, count: int) -> int:
    """Tokens of a chunk from `start` that ends where a state is worth saving, if `count` tokens reach beyond that.

    That is the tail split point, one block below the last block boundary under the end of what is known, and the last
    interval boundary inside.
    """
    if core.snapshots is None or not core.snapshots.num_slots or not core.config.chunked_prefill:
        return count
    end, split = start + count, _split_point(core, sequence)
    if start < split < end and _can_be_saved(core, sequence, split):
        end = split
    boundary = _interval_boundary(core, end)
    if start < boundary < end and _can_be_saved(core, sequence, boundary):
        end = boundary
    return end - start


def after_chunk(core: Scheduler, sequence: Sequence) -> None:
    """A chunk has ended: save its state, at an interval boundary for everybody, near the end for its session."""
    end = sequence.num_computed
    if core.snapshots is None or not _can_be_saved(core, sequence, end):
        return
    if end == _interval_boundary(core, end):
        _save(core, sequence, sequence.slot, "")
    elif _split_point(core, sequence) <= end < sequence.num_known:
        _save(core, sequence, sequence.slot, sequence.request.session)


def after_decode(core: Scheduler, schedule: SnapshotSchedule) -> None:
    """Iterations have ended: rows that filled so many blocks in one of them hold its state, each for itself."""
    pool = core.snapshots
    assert pool is not None
    for sequence, num_tokens in schedule.due():
        if not _is_whole(sequence) or num_tokens < pool.min_tokens:
            continue
        full_blocks = num_tokens // core.config.block_size
        caching.learn_output_keys(core, sequence, full_blocks)
        if sequence.keys is None or len(sequence.keys) < full_blocks:
            continue
        slot = pool.hold(sequence.arrival_index, num_tokens)
        if slot is not None:
            core.device.save_state(sequence.slot, slot, num_tokens)


def leave(core: Scheduler, sequence: Sequence, slot: int) -> None:
    """A sequence has given up its seat and `slot`, and its blocks can be found: so can its latest state."""
    pool, keys = core.snapshots, sequence.keys
    if pool is None:
        return
    held = pool.held_by(sequence.arrival_index)
    if held is not None and keys and _is_whole(sequence):
        pool.settle(sequence.arrival_index, keys[held.num_tokens // core.config.block_size - 1], _session(sequence))
    if _is_whole(sequence) and _can_be_saved(core, sequence, sequence.num_computed):
        _save(core, sequence, slot, _session(sequence))


def _save(core: Scheduler, sequence: Sequence, slot: int, session: str) -> None:
    pool, num_tokens = core.snapshots, sequence.num_computed
    assert pool is not None and sequence.keys is not None
    key = sequence.keys[num_tokens // core.config.block_size - 1]
    if pool.refresh(key, session):
        return
    snapshot = pool.save(key, num_tokens, session)
    if snapshot is not None:
        core.device.save_state(slot, snapshot, num_tokens)


def _session(sequence: Sequence) -> str:
    return sequence.request.session


def _is_whole(sequence: Sequence) -> bool:
    """Its blocks are all on the device, so that they can be found."""
    return sequence.window is None or not sequence.window.start


def _can_be_saved(core: Scheduler, sequence: Sequence, num_tokens: int) -> bool:
    """A block boundary, deep enough, with a key."""
    size, pool = core.config.block_size, core.snapshots
    if pool is None or not sequence.keys or num_tokens % size or num_tokens < max(pool.min_tokens, 1):
        return False
    return num_tokens // size <= len(sequence.keys)


def _split_point(core: Scheduler, sequence: Sequence) -> int:
    size = core.config.block_size
    return ((sequence.num_known - 1) // size - 1) * size


def _interval_boundary(core: Scheduler, end: int) -> int:
    """The last one at or below `end`; 0 without any."""
    interval_tokens = core.config.snapshot_interval_blocks * core.config.block_size
    return end // interval_tokens * interval_tokens if interval_tokens else 0


class SnapshotSchedule:
    """When decode rows next fill a block after which their state is saved: a heap of (batch step, row), deleted lazily.

    Runs of any length give the same rows in the same order as single steps, by iteration and then by row.
    """

    __slots__ = ("_batch", "_every_tokens", "_heap")

    def __init__(self, batch: DecodeBatch, every_tokens: int) -> None:
        self._batch = batch
        self._every_tokens = every_tokens
        self._heap: list[Entry] = []

    def add(self, sequence: Sequence) -> None:
        """A row has just joined. O(log rows)."""
        if len(self._heap) > 2 * len(self._batch.rows) + SLACK_ENTRIES:
            self._heap = [entry for entry in self._heap if self._is_live(entry)]
            heapify(self._heap)
        tokens_left = self._every_tokens - sequence.joined_len % self._every_tokens
        heappush(self._heap, (sequence.joined_step + tokens_left, sequence.row_index, sequence))

    def due(self) -> Iterator[tuple[Sequence, int]]:
        """Rows that have filled such a block since the last call, each with its tokens then."""
        heap, step = self._heap, self._batch.step
        while heap and heap[0][0] <= step:
            at, row_index, sequence = heap[0]
            if not self._is_live(heap[0]):
                heappop(heap)
                continue
            heapreplace(heap, (at + self._every_tokens, row_index, sequence))
            yield sequence, sequence.joined_len + at - sequence.joined_step

    def _is_live(self, entry: Entry) -> bool:
        return entry[2] in self._batch.rows and entry[1] == entry[2].row_index
