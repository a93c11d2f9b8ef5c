"""Which moves of the life cycle and which decisions of a scheduler runs have reached."""

from __future__ import annotations

from collections import Counter

from schedlab.core.scheduler import Scheduler
from schedlab.events import (
    IMAGE_LOST,
    RESET,
    RESTORE_FAILED,
    Admitted,
    Arrived,
    CacheReset,
    Finished,
    Preempted,
    Refused,
    Restoring,
    Resumed,
    StepDone,
    SwappedOut,
)
from schedlab.memory.swap import Tier
from schedlab.request import FinishReason
from schedlab.sequence import LEGAL_MOVES, Sequence, State
from schedlab.testing.features import Feature, features_of

Move = tuple[State, State]
MOVES: tuple[Move, ...] = tuple((old, new) for old in State for new in State if new in LEGAL_MOVES[old])
_ENDS: dict[FinishReason, str] = {
    reason: f"end: {reason}" for reason in FinishReason if reason is not FinishReason.REFUSED
}
_PREEMPTIONS = {reason: f"preempt: {reason}" for reason in ("decode", "prefill", "priority", IMAGE_LOST)}
_PREEMPTIONS |= {reason: f"preempt: {reason}" for reason in (RESTORE_FAILED, RESET)}
_SWAPS = {tier: f"swap out: {tier}" for tier in Tier}
DECISIONS: tuple[str, ...] = (
    "refuse",
    "admit",
    "admit: behind a cached prefix",
    "admit: after others passed it",
    "step: first chunk alone",
    "step: chunks",
    "step: decode",
    "step: chunks and decode",
    "step: decode, repeated",
    "chunk: a piece",
    "window: slid",
    "snapshot: begun from",
    *_PREEMPTIONS.values(),
    *_SWAPS.values(),
    "return: computed again",
    "return: behind a cached prefix",
    "return: restored",
    *_ENDS.values(),
    "cache reset: done",
    "cache reset: refused",
)

# Occasions of laws beside the decisions and features.
STEP = "a step"
DEADLINE = "a request with a deadline"
PLAYED_TWICE = "a run that was played twice"


class Coverage:
    """Observer of any number of schedulers, one after the other: counts what they did."""

    def __init__(self) -> None:
        self.moves: Counter[Move] = Counter()
        self.decisions: Counter[str] = Counter()
        # What else laws are judged by: steps, and those of schedulers that had a feature.
        self.occasions: Counter[str] = Counter()
        self._has: tuple[Feature, ...] = ()
        self._states: dict[Sequence, State] = {}

    def attach(self, core: Scheduler) -> None:
        """Follow a scheduler from before its first plan."""
        self._states.clear()
        self._core = core
        self._has = features_of(core)
        core.bus.add(self)
        activate = core.activate

        def watched(sequence: Sequence, now_ns: int) -> None:
            activate(sequence, now_ns)
            self._move(sequence, State.ACTIVE)

        setattr(core, "activate", watched)  # noqa: B010 - no event tells of it

    @property
    def num_states(self) -> int:
        """States that a request was in."""
        return len({state for old, new in self.moves for state in (old, new)})

    @property
    def missing(self) -> list[str]:
        """Moves and decisions that no run has reached."""
        moves = [f"{old} -> {new}" for old, new in MOVES if not self.moves[old, new]]
        return moves + [name for name in DECISIONS if not self.decisions[name]]

    def on_arrived(self, event: Arrived) -> None:
        self._states[event.sequence] = State.PENDING
        self.occasions[DEADLINE] += event.sequence.request.deadline_ns is not None

    def on_refused(self, event: Refused) -> None:
        self.decisions["refuse"] += 1

    def on_admitted(self, event: Admitted) -> None:
        sequence = event.sequence
        self._move(sequence, State.PREFILLING)
        self.decisions["admit"] += 1
        self.decisions["admit: behind a cached prefix"] += sequence.num_computed > 0
        self.decisions["admit: after others passed it"] += sequence.times_bypassed > 0
        self._count_snapshot(sequence)

    def on_preempted(self, event: Preempted) -> None:
        self._move(event.sequence, State.PREEMPTED)
        self.decisions[_PREEMPTIONS[event.reason]] += 1

    def on_resumed(self, event: Resumed) -> None:
        self._move(event.sequence, State.PREFILLING)
        behind_prefix = event.sequence.num_computed > 0
        self.decisions["return: behind a cached prefix" if behind_prefix else "return: computed again"] += 1
        self._count_snapshot(event.sequence)

    def on_swapped_out(self, event: SwappedOut) -> None:
        self._move(event.sequence, State.SWAPPED)
        self.decisions[_SWAPS[event.tier]] += 1

    def on_restoring(self, event: Restoring) -> None:
        self._move(event.sequence, State.RESTORING)
        self.decisions["return: restored"] += 1

    def on_step_done(self, event: StepDone) -> None:
        chunks, rows = event.chunks, event.decode_rows
        if chunks:
            kind = "chunks and decode" if rows else "chunks"
            alone = len(chunks) == 1 and not rows and event.batch.rows
            self.decisions["step: first chunk alone" if alone else f"step: {kind}"] += 1
            self.decisions["chunk: a piece"] += not all(chunk.samples for chunk in chunks)
        else:
            self.decisions["step: decode, repeated" if event.pace.count > 1 else "step: decode"] += 1
        self.decisions["window: slid"] += event.batch.far_blocks > 0
        self.occasions[STEP] += 1
        for feature in self._has:
            self.occasions[feature] += 1

    def on_finished(self, event: Finished) -> None:
        self._move(event.sequence, State.FINISHED)
        del self._states[event.sequence]
        self.decisions[_ENDS[event.reason]] += 1

    def on_cache_reset(self, event: CacheReset) -> None:
        self.decisions[f"cache reset: {'done' if event.done else 'refused'}"] += 1

    def _move(self, sequence: Sequence, state: State) -> None:
        self.moves[self._states[sequence], state] += 1
        self._states[sequence] = state

    def _count_snapshot(self, sequence: Sequence) -> None:
        has_states = self._core.snapshots is not None
        self.decisions["snapshot: begun from"] += has_states and sequence.num_computed > 0
