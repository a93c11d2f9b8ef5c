"""An observer of what a scheduler asks of the pool of saved states: when, for whom, and how deep; worked out anew."""

from __future__ import annotations

from typing import Any, NamedTuple

from schedlab.core.scheduler import Scheduler
from schedlab.device import StepResult
from schedlab.request import FinishReason
from schedlab.sequence import Sequence, State
from tests.mutants import naive_facts as facts


class Demand(NamedTuple):
    """A state of so many tokens is to be there: for everybody, a session, or (`hold`) for the row alone."""

    how: str
    whom: str | int
    key: int | None = None
    num_tokens: int | None = None


def demand(core: Scheduler) -> None:
    """Compare from now on; nothing where states are not saved."""
    if core.snapshots is None or not core.snapshots.num_slots:
        return
    demands = Demands(core)
    for name in ("commit", "preempt", "end"):
        setattr(core, name, getattr(demands, name)(getattr(core, name)))


class Demands:
    """Hears what is asked, and says what should be."""

    def __init__(self, core: Scheduler) -> None:
        self._core = core
        self._heard: list[Demand] = []
        # Was nothing found by the last one, so that it must be saved?
        self._is_missed = False
        assert core.snapshots is not None
        self._pool: Any = core.snapshots
        for name in ("refresh", "save", "hold", "settle"):
            setattr(self._pool, name, getattr(self, f"_{name}")(getattr(self._pool, name)))

    def _refresh(self, inner: Any) -> Any:
        def refresh(key: int, session: str) -> Any:
            self._heard.append(Demand("refresh", session, key))
            found = inner(key, session)
            self._is_missed = not found
            return found

        return refresh

    def _save(self, inner: Any) -> Any:
        def save(key: int, num_tokens: int, session: str = "") -> Any:
            asked = self._heard[-1]
            assert self._is_missed and asked[1:3] == (session, key), f"saved for {session} without need, after {asked}"
            self._heard[-1], self._is_missed = asked._replace(num_tokens=num_tokens), False
            return inner(key, num_tokens, session)

        return save

    def _hold(self, inner: Any) -> Any:
        def hold(owner: int, num_tokens: int) -> Any:
            self._heard.append(Demand("hold", owner, None, num_tokens))
            return inner(owner, num_tokens)

        return hold

    def _settle(self, inner: Any) -> Any:
        def settle(owner: int, key: int, session: str) -> None:
            heard = [*self._heard, Demand(f"settle {owner}", session, key)]
            inner(owner, key, session)
            self._heard, self._is_missed = heard, False

        return settle

    def commit(self, inner: Any) -> Any:
        def committed(result: StepResult) -> None:
            core, step = self._core, self._core.in_flight
            assert step is not None
            every = core.config.snapshot_decode_blocks * core.config.block_size
            rows = [(row, core.batch.length(row) + 1) for row in (facts.rows(core) if step.decode else ())]
            self._heard = []
            inner(result)
            if result.fault is not None:
                assert not self._heard, f"{self._heard} after a step that failed"
                return
            expected = [
                Demand("hold", row.arrival_index, None, length)
                for row, length in rows
                if every and length % every == 0 and self._can_be_saved(row, length)
            ]
            for chunk in step.chunks:
                end, sequence = chunk.start + chunk.num_tokens, chunk.sequence
                known = end if chunk.samples else facts.known(core, sequence)
                expected += self._after_piece(sequence, end, known)
            self._compare(expected)

        return committed

    def preempt(self, inner: Any) -> Any:
        def preempted(sequence: Sequence, reason: str) -> None:
            state, computed = sequence.state, self._computed(sequence)
            self._heard = []
            held = self._pool.held_by(sequence.arrival_index)
            inner(sequence, reason)
            self._compare(self._left(sequence, computed, held) if state is not State.RESTORING else [])

        return preempted

    def end(self, inner: Any) -> Any:
        def ended(sequence: Sequence, reason: FinishReason) -> None:
            state, computed = sequence.state, self._computed(sequence)
            self._heard = []
            held = self._pool.held_by(sequence.arrival_index)
            window = sequence.window
            inner(sequence, reason)
            leaves = state in (State.PREFILLING, State.ACTIVE) and reason is not FinishReason.ERROR
            is_whole = window is None or not window.start
            self._compare(self._left(sequence, computed, held) if leaves and is_whole else [])

        return ended

    def _computed(self, sequence: Sequence) -> int:
        is_row = sequence.state is State.ACTIVE
        return self._core.batch.length(sequence) if is_row else sequence.num_computed

    def _after_piece(self, sequence: Sequence, end: int, known: int) -> list[Demand]:
        """At an interval for everybody; near the end of what was known, but not at it, for the session."""
        config, size = self._core.config, self._core.config.block_size
        if not self._can_be_saved(sequence, end):
            return []
        interval = config.snapshot_interval_blocks * size
        if interval and end % interval == 0:
            return [self._refreshed("", sequence, end)]
        split = (known - 1) // size * size - size
        return [self._refreshed(sequence.request.session, sequence, end)] if split <= end < known else []

    def _left(self, sequence: Sequence, computed: int, held: Any) -> list[Demand]:
        """Whoever leaves makes known what it holds for itself, then what its slot has."""
        found, size, keys = list[Demand](), self._core.config.block_size, sequence.keys or []
        if not sequence.has_keys or (sequence.window is not None and sequence.window.start):
            return []
        if held is not None and keys:
            key = keys[held.num_tokens // size - 1]
            found.append(Demand(f"settle {sequence.arrival_index}", sequence.request.session, key))
        if self._can_be_saved(sequence, computed):
            found.append(self._refreshed(sequence.request.session, sequence, computed))
        return found

    def _refreshed(self, whom: str, sequence: Sequence, num_tokens: int) -> Demand:
        assert sequence.keys is not None
        return Demand("refresh", whom, sequence.keys[num_tokens // self._core.config.block_size - 1], num_tokens)

    def _can_be_saved(self, sequence: Sequence, num_tokens: int) -> bool:
        """At the end of a block whose key is known, deep enough, and with all blocks still on the device."""
        size, least = self._core.config.block_size, max(1, self._core.config.snapshot_min_tokens)
        if sequence.state is State.ACTIVE and sequence.window is not None and sequence.window.start:
            return False
        return num_tokens % size == 0 and least <= num_tokens <= len(sequence.keys or ()) * size

    def _compare(self, expected: list[Demand]) -> None:
        """Where a state was there already nothing tells how deep it is."""
        assert not self._is_missed, f"{self._heard[-1]} is neither there nor saved"
        assert len(self._heard) == len(expected), f"asked of the saved states: {self._heard}, should be {expected}"
        for found, wanted in zip(self._heard, expected, strict=True):
            depth = wanted.num_tokens if found.num_tokens is not None else None
            assert found == wanted._replace(num_tokens=depth), f"asked of the saved states: {found}, should be {wanted}"
