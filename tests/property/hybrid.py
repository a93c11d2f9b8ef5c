"""Runs of worlds whose sequences carry a state, on a device that checks what is restored there."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from backends.sim.shadow_kv import ShadowDevice
from schedlab.core.scheduler import Scheduler
from schedlab.events import Admitted, Finished, Resumed, StepDone
from schedlab.memory.prefix import CachingBlockPool
from schedlab.memory.snapshots import Snapshot
from schedlab.sequence import Sequence
from schedlab.testing import Node, World
from tests.property.world import Recorded
from tests.property.world import run as record


class Ran(NamedTuple):
    """What a run left, its snapshots included."""

    outcome: Recorded
    counts: dict[str, int]
    left: list[tuple[int, int, str]]
    restored_tokens: int


class HybridDevice(ShadowDevice):
    """A shadow device that checks law 58 at each restore, and law 51 at each end.

    Attributes:
        restored_tokens: not computed, thanks to snapshots.
    """

    def attach(self, core: Scheduler) -> None:
        super().attach(core)
        self._found: Snapshot | None = None
        self._computed: dict[int, int] = {}
        self._reached: dict[int, int] = {}
        self._skipped: dict[int, int] = {}
        self.restored_tokens = 0

    def restore_state(self, snapshot: int, slot: int) -> None:
        super().restore_state(snapshot, slot)
        core, sequence = self._core, self._core.slots.owner(slot)
        assert core.snapshots is not None and sequence is not None and sequence.keys is not None
        assert isinstance(core.pool, CachingBlockPool)
        (self._found,) = (one for one in core.snapshots.snapshots() if one.slot == snapshot)
        size = core.config.block_size
        matched = core.pool.lookup(sequence.keys, (sequence.num_known - 1) // size)
        depth = self._found.num_tokens
        assert max(core.config.snapshot_min_tokens, 1) <= depth <= len(matched) * size and depth % size == 0
        assert self._found.session in ("", sequence.request.session)
        assert self._found.key == sequence.keys[depth // size - 1]
        for one in core.snapshots.snapshots():
            if one.key is not None and depth < one.num_tokens <= len(matched) * size:
                is_of_this_text = one.key == sequence.keys[one.num_tokens // size - 1]
                assert not is_of_this_text or one.session not in ("", sequence.request.session), "a deeper one was left"

    def on_admitted(self, event: Admitted) -> None:
        super().on_admitted(event)
        self._begin_behind_the_snapshot(event.sequence)

    def on_resumed(self, event: Resumed) -> None:
        super().on_resumed(event)
        self._begin_behind_the_snapshot(event.sequence)

    def on_step_done(self, event: StepDone) -> None:
        super().on_step_done(event)
        for chunk in event.chunks:
            self._count(chunk.sequence, chunk.num_tokens, chunk.start + chunk.num_tokens)
        if event.decode_rows:
            for row in event.batch.rows:
                self._count(row, event.pace.count, event.batch.length(row))

    def on_finished(self, event: Finished) -> None:
        sequence = event.sequence
        computed, reached = self._computed.pop(sequence.request_id, 0), self._reached.pop(sequence.request_id, 0)
        skipped = self._skipped.pop(sequence.request_id, 0)
        assert computed == reached - skipped + sequence.num_recomputed_tokens
        assert self._core.snapshots is None or self._core.snapshots.held_by(sequence.arrival_index) is None

    def _begin_behind_the_snapshot(self, sequence: Sequence) -> None:
        found, self._found = self._found, None
        depth = found.num_tokens if found is not None else 0
        assert sequence.num_computed == depth == len(sequence.block_table) * self._core.config.block_size
        self.restored_tokens += depth
        reached = self._reached.get(sequence.request_id, 0)
        self._skipped[sequence.request_id] = self._skipped.get(sequence.request_id, 0) + max(depth - reached, 0)
        self._reached[sequence.request_id] = max(depth, reached)

    def _count(self, sequence: Sequence, tokens: int, end: int) -> None:
        request_id = sequence.request_id
        self._computed[request_id] = self._computed.get(request_id, 0) + tokens
        self._reached[request_id] = max(end, self._reached.get(request_id, 0))


def run(world: World, *, leap: bool, watch: Callable[[Node], None] | None = None) -> Ran:
    """One run to its end on a device that checks; `watch` sees the node before it starts."""
    nodes: list[Node] = []

    def look(node: Node) -> None:
        nodes.append(node)
        if watch is not None:
            watch(node)

    recorded = record(world, leap=leap, device_class=HybridDevice, watch=look)
    pool, device = nodes[0].core.snapshots, nodes[0].core.device
    assert pool is not None and isinstance(device, HybridDevice)
    left = [(one.slot, one.num_tokens, one.session) for one in pool.snapshots()]
    return Ran(recorded, pool.counts(), left, device.restored_tokens)
