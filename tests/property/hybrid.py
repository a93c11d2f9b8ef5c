"""Worlds whose sequences carry a state, and a device that checks what is restored there."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st

from backends.sim.clock import SimClock
from backends.sim.shadow_kv import ShadowDevice
from schedlab.core.scheduler import Scheduler
from schedlab.device import DeviceFacts
from schedlab.errors import Stalled
from schedlab.events import Admitted, Finished, Resumed, StepDone
from schedlab.memory.prefix import CachingBlockPool
from schedlab.memory.snapshots import Snapshot
from schedlab.memory.swap import GIB
from schedlab.sequence import Sequence
from tests.property.strategies import worlds
from tests.property.world import Node, Outcome, Session, Sessions, Text, Turn, World


@dataclass(frozen=True)
class HybridWorld(World):
    """A world with recurrent layers; `config` has a prefix cache."""

    state_bytes: int = 1

    def facts(self) -> DeviceFacts:
        return replace(super().facts(), state_bytes=self.state_bytes)


class Ran(NamedTuple):
    """What a run left, its snapshots included."""

    outcome: Outcome
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


def run(world: HybridWorld, *, leap: bool, watch: Callable[[Node], None] | None = None) -> Ran:
    """One run to its end on a device that checks; `watch` sees the node before it starts."""
    clock = SimClock()
    with tempfile.TemporaryDirectory() as folder:
        node = Node(clock, world, Path(folder) / "events.jsonl", leap, device_class=HybridDevice)
        if watch is not None:
            watch(node)
        Sessions(node, world.sessions)
        try:
            clock.run()
        except Stalled as stalled:
            return _ran(node, f"stalled: {stalled}")
        return _ran(node, "done" if node.process.done else "waits for ever")


def _ran(node: Node, end: str) -> Ran:
    pool, device = node.core.snapshots, node.device
    assert pool is not None and isinstance(device, HybridDevice)
    left = [(one.slot, one.num_tokens, one.session) for one in pool.snapshots()]
    return Ran(node.outcome(end), pool.counts(), left, device.restored_tokens)


@st.composite
def hybrid_worlds(draw: st.DrawFn) -> HybridWorld:
    """Any world, with states that are small or large beside a block, and few or many slots for snapshots."""
    world = draw(worlds())
    size = world.config.block_size
    rules: dict[str, Any] = {
        "snapshot_slots": draw(st.sampled_from((0, 1, 2, 3, 6, 40))),
        "snapshot_interval_blocks": draw(st.sampled_from((0, 1, 2, 5))),
        "snapshot_decode_blocks": draw(st.sampled_from((0, 1, 1, 2, 4))),
        "snapshot_min_tokens": draw(st.sampled_from((0, 1, size, 3 * size))),
        "snapshot_depth_weight": draw(st.sampled_from((0, 0, 1, 8))),
    }
    config = replace(world.config, prefix_cache=True, **rules)
    given = {name: getattr(world, name) for name in world.__dataclass_fields__}
    changed: dict[str, Any] = {"config": config, "state_bytes": GIB // draw(st.integers(1, 40))}
    if draw(st.booleans()):
        changed["sessions"] = tuple(map(_of_one_size, world.sessions))
    else:
        changed["sessions"] = draw(st.lists(_chats(size), min_size=1, max_size=6).map(tuple))
        changed["num_blocks"] = draw(st.integers(10, 300))
    return HybridWorld(**{**given, **changed})


def _of_one_size(session: Session) -> Session:
    """Families of one name have blocks of one size, else equal ids would mean different texts."""
    text = session.text
    return session._replace(text=text and text._replace(family=10 * text.family + text.hash_block_tokens))


@st.composite
def _chats(draw: st.DrawFn, size: int) -> Session:
    """Each turn begins with all that was said before; two families, and now and then one that leaves."""
    drawn = []
    for _ in range(draw(st.integers(2, 4))):
        cancel_ns = draw(st.sampled_from((None, None, None, 9000, 30_000)))
        tokens, output_tokens = draw(st.integers(1, 30)), draw(st.integers(1, 40))
        drawn.append(
            Turn(tokens, output_tokens, cancel_ns=cancel_ns, think_ns=draw(st.sampled_from((0, 3000, 50_000))))
        )
    text = Text(draw(st.integers(0, 1)), draw(st.integers(0, 60)), size, grows=True)
    return Session(draw(st.integers(0, 20)) * 1000, tuple(drawn), text)
