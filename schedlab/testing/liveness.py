"""Liveness: what must happen in the end, as bounds that a run can break.

Progress is that of the whole: some request gets further than it ever was, comes in, or ends. Computing again what was
lost is none, so rows that push each other out for ever make none. Waiting is that of one: how often requests that
came later got their first seat before it, in the same line, since it last got further.
"""

from __future__ import annotations

from collections.abc import Callable

from schedlab.config import VictimRule
from schedlab.core.scheduler import Scheduler
from schedlab.events import Admitted, Arrived, CacheReset, Finished, StepDone
from schedlab.policies.base import Policy
from schedlab.sequence import Sequence, State
from schedlab.testing.laws import BOUNDED_WAITING, PROGRESS, SOMETHING_IS_DUE

SLACK_TICKS = 32
TICKS_A_TOKEN = 2
# A copy that ends wakes the scheduler: it looks whether anything has come free, and waits again.
TICKS_A_COPY = 2
# While a request stands at the head, seats may fill with others this often, and a few more come for good measure.
ROUNDS = 4
SLACK_PASSES = 16


def bounds_waiting(core: Scheduler) -> bool:
    """Does everybody who waits get a turn?

    Not where the policy says so. Nor where more is promised than the pool has and whoever has the fewest outputs gives
    way: a prompt that needs all of the pool has none, so it gives way again to each newcomer that is promised room.
    """
    config = core.config
    gives_way_for_ever = (
        config.overcommit_percent > 100
        and config.victim is VictimRule.FEWEST_OUTPUTS
        and type(core.policy).yield_ is Policy.yield_
    )
    return not core.policy.may_starve and not gives_way_for_ever


class Waiting:
    """How far a live request has come, and who has passed it since.

    Attributes:
        ahead: requests that lived when it came; each may have its turn before it.
    """

    __slots__ = ("ahead", "furthest", "passed")

    def __init__(self, ahead: int) -> None:
        self.ahead = ahead
        self.furthest = 0
        self.passed = 0


class Liveness:
    """Observer: counts ticks, and raises when nobody gets further, or somebody is passed too often.

    Attributes:
        num_ticks: so far.
    """

    def __init__(self, core: Scheduler) -> None:
        self._core = core
        self._live: dict[Sequence, Waiting] = {}
        self._known_tokens = 0
        self._progress_tick = 0
        # Copies under way when somebody last got further. Those that came later do not count: whoever swaps in
        # circles makes ever more of them.
        self._copies_ahead = 0
        self._bounds_waiting = bounds_waiting(core)
        self.num_ticks = 0
        core.bus.add(self)
        _after(core, "end_tick", self._tick)

    def on_arrived(self, event: Arrived) -> None:
        self._live[event.sequence] = Waiting(len(self._live))
        self._known_tokens += event.sequence.num_prompt_tokens
        self._progress()

    def on_admitted(self, event: Admitted) -> None:
        self._progress()
        if not self._bounds_waiting:
            return
        newcomer, most = event.sequence, self._most_passes()
        for sequence, waiting in self._live.items():
            if sequence is newcomer:
                return
            if not self._is_in_line(sequence):
                continue
            waiting.passed += 1
            if waiting.passed > most * (1 + waiting.ahead):
                raise BOUNDED_WAITING.broken(self._who_starves(sequence, waiting), sequence.request_id)

    def on_step_done(self, event: StepDone) -> None:
        for chunk in event.chunks:
            self._reach(chunk.sequence, chunk.start + chunk.num_tokens)
        if event.decode_rows:
            for row in event.batch.rows:
                self._reach(row, event.batch.length(row))

    def on_cache_reset(self, event: CacheReset) -> None:
        self._progress()

    def on_finished(self, event: Finished) -> None:
        sequence = event.sequence
        del self._live[sequence]
        self._known_tokens -= sequence.num_prompt_tokens
        self._progress()

    def check_due(self) -> None:
        """Nothing is due any more.

        Raises:
            InvariantViolation: a request lives on.
        """
        if self._live:
            oldest = next(iter(self._live))
            raise SOMETHING_IS_DUE.broken(f"{self._core.why_stalled()}; {self._what_holds(oldest)}", oldest.request_id)

    def _tick(self) -> None:
        self.num_ticks += 1
        idle_ticks = self.num_ticks - self._progress_tick
        if idle_ticks == 1:
            self._copies_ahead = len(self._core.copies) + len(self._core.offloads)
        if idle_ticks <= SLACK_TICKS or not self._live:
            return
        tokens = self._known_tokens + sum(max(waiting.furthest, 0) for waiting in self._live.values())
        most = SLACK_TICKS + TICKS_A_TOKEN * tokens + TICKS_A_COPY * self._copies_ahead
        if idle_ticks > most:
            raise PROGRESS.broken(f"nobody got further for {idle_ticks} ticks, {most} are enough: {self._oldest()}")

    def _progress(self) -> None:
        self._progress_tick = self.num_ticks

    def _reach(self, sequence: Sequence, tokens: int) -> None:
        waiting = self._live[sequence]
        if tokens > waiting.furthest:
            waiting.furthest, waiting.passed = tokens, 0
            self._progress_tick = self.num_ticks

    def _most_passes(self) -> int:
        config = self._core.config
        return ROUNDS * config.max_num_seqs + config.max_bypass + SLACK_PASSES

    def _is_in_line(self, sequence: Sequence) -> bool:
        """Where the preempted have a line of their own, new requests may pass them: that is the configuration's."""
        return self._core.in_line or sequence.state not in (State.PREEMPTED, State.SWAPPED)

    def _oldest(self) -> str:
        sequence = next(iter(self._live))
        return f"request {sequence.request_id} ({sequence.state}) is the oldest, {self._what_holds(sequence)}"

    def _who_starves(self, sequence: Sequence, waiting: Waiting) -> str:
        return (
            f"request {sequence.request_id} ({sequence.state}, priority {sequence.request.priority}, "
            f"{sequence.num_prompt_tokens} prompt tokens) starves: {waiting.passed} later requests came in since it "
            f"last got further; {self._what_holds(sequence)}; a policy that may do so says may_starve = True"
        )

    def _what_holds(self, sequence: Sequence) -> str:
        """What stands between a request and its next token."""
        core, view = self._core, self._core.view
        if sequence.state is State.PENDING:
            place = next((at for at, one in enumerate(core.waiting.candidates()) if one is sequence), None)
            if place is None:
                return "the policy's queue has lost it"
            if place:
                return f"the policy puts {place} of {len(core.waiting)} waiting requests before it"
        if sequence.state in (State.PREFILLING, State.ACTIVE):
            return f"it has a seat and the policy gives {core.policy.compose(view)} prefill tokens a step"
        missing_blocks = view.missing_blocks(sequence)
        if core.free_seats <= 0:
            return "it needs a seat and none is free"
        if missing_blocks > core.pool.free_blocks - core.reserved_blocks:
            return (
                f"it needs {missing_blocks} blocks, {core.pool.free_blocks} are free, {core.reserved_blocks} reserved"
            )
        return (
            f"seats and blocks are free, the policy gives {core.policy.compose(view)} prefill tokens and "
            f"{'admits' if core.policy.admit(view, sequence) else 'refuses'} it"
        )


def _after(core: Scheduler, method: str, action: Callable[[], None]) -> None:
    """Do something whenever `core.method()` has been called."""
    inner = getattr(core, method)

    def call() -> None:
        inner()
        action()

    setattr(core, method, call)
