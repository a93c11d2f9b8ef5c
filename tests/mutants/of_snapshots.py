"""Wrong snapshots of states: depths, texts, sessions, slots, eviction."""

from __future__ import annotations

from schedlab.core import caching, snapshots
from schedlab.core.scheduler import Scheduler
from schedlab.memory.snapshots import SnapshotPool, _may_use
from tests.mutants.mutant import Mutant, edit, mutant

MUTANTS: tuple[Mutant, ...] = (
    mutant(
        "snapshot of the wrong depth",
        "a snapshot deeper than what is cached is restored",
        edit(
            SnapshotPool.lookup,
            "deepest = min(matched_tokens, len(keys) * self._block_size)",
            "deepest = len(keys) * self._block_size",
        ),
    ),
    mutant(
        "snapshot of another text",
        "a snapshot is found by its depth alone",
        edit(
            SnapshotPool.lookup,
            "self._by_key.get(keys[depth // self._block_size - 1])",
            "next(one for one in self._by_key.values() if one.num_tokens == depth)",
        ),
    ),
    mutant(
        "the shallowest snapshot",
        "a lookup gives the shallowest snapshot",
        edit(SnapshotPool.lookup, "reverse=True", "reverse=False"),
    ),
    mutant(
        "snapshot of another session",
        "a session goes on from the state of another",
        edit(_may_use, "return not snapshot.session or snapshot.session == session", "return True"),
    ),
    mutant(
        "snapshot behind the start",
        "a sequence skips all that is cached, whatever the depth of its snapshot",
        edit(caching._look_up, "found[: snapshot.num_tokens // size] if", "found if"),
    ),
    mutant(
        "snapshot too soon",
        "a state is saved as that of a block that the sequence has not filled",
        edit(snapshots._can_be_saved, "or num_tokens % size ", ""),
    ),
    mutant(
        "state not restored",
        "a sequence starts behind a snapshot with an empty state",
        edit(caching.take_prefix, "core.device.restore_state(sequence.cached_snapshot.slot, sequence.slot)", "pass"),
    ),
    mutant(
        "snapshots of the ended stay",
        "what a running sequence holds for itself is held when it has ended",
        edit(Scheduler.end, "self.snapshots.drop(sequence.arrival_index)", "pass"),
    ),
    mutant(
        "snapshot slot not given back",
        "the slot of a snapshot that is dropped is lost",
        edit(SnapshotPool._remove, "heappush(self._free, snapshot.slot)", "pass"),
    ),
    mutant(
        "the last snapshot first",
        "the snapshot that was used last is evicted first",
        edit(SnapshotPool._evict, "in self._order:", "in reversed(self._order):"),
    ),
    mutant(
        "the lease protects for ever",
        "a session that was looked up once keeps its snapshots for good",
        edit(SnapshotPool._evict, "self._lease_left -= self._lease_left > 0", "pass"),
    ),
    mutant(
        "a decode state of the wrong iteration",
        "a row's state is kept under a depth that it has passed",
        edit(
            snapshots.SnapshotSchedule.due,
            "yield sequence, sequence.joined_len + at - sequence.joined_step",
            "yield sequence, sequence.joined_len + at - sequence.joined_step - self._every_tokens",
        ),
    ),
)
