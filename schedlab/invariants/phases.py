"""Laws of the loop: the order of its phases, one step at a time, and that every tick brings something about."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from schedlab.law import Law, When

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler

ORDER = Law(
    "a_tick_has_its_phases",
    "Each tick begins, plans, runs its lanes and ends, also without a decode step; a shutdown finishes once, the last.",
    When.TICK,
    numbers=(36, 37, 38),
)
ONE_STEP = Law(
    "one_step_is_in_flight", "A step begins only after the one before it has ended.", When.EVENT, numbers=(69,)
)
STILL = Law(
    "nobody_moves_while_a_step_runs",
    "While a step is in flight nobody comes in, gives way, returns or ends.",
    When.EVENT,
    numbers=(12, 72),
)
ONE_DECODE = Law("one_decode_step_a_tick", "A tick decodes at most once, mixed step or not.", When.EVENT, numbers=(34,))
RETIRE_FIRST = Law(
    "who_ends_goes_before_who_returns",
    "At the end of a tick those that have ended go first; then preempted ones return.",
    When.EVENT,
    numbers=(37,),
)
PROGRESS = Law(
    "ticks_bring_something_about",
    "While there is work, a few ticks at one instant bring a step, an arrival, an admission, an end, or a copy's end.",
    When.TICK,
    numbers=(40,),
    scenarios=(4,),
)
MONOTONE = Law(
    "counters_never_fall",
    "What counts arrivals, iterations and evictions never falls.",
    When.TICK,
    scenarios=(8,),
)
DENSE = Law(
    "slots_are_dense_after_an_end",
    "Where a device wants dense slots, no decode row keeps a high slot after an end while a low one is free.",
    When.TICK,
    numbers=(11,),
)

# Ticks at one instant without any of these. Two would do for what ends or returns; the rest is slack for policies.
MOST_IDLE_TICKS = 16


class Phase(StrEnum):
    """What the loop has done last."""

    ENDED = "end_tick"
    BEGUN = "begin_tick"
    PLANNED = "plan"
    OVER = "finish"


class Phases:
    """Where the loop is, and what its tick has brought about so far.

    Attributes:
        moved: something came of the tick.
        decoded, returned: it has had a decode step; somebody has come back.
    """

    __slots__ = ("_counters", "_had_ends", "_idle_ticks", "_last_ns", "_phase", "decoded", "moved", "returned")

    def __init__(self) -> None:
        self._phase = Phase.ENDED
        self._idle_ticks = 0
        self._last_ns = -1
        self._counters = (0, 0, 0)
        self._had_ends = False
        self.moved = self.decoded = self.returned = False

    def begin(self) -> None:
        self._enter(Phase.BEGUN, Phase.ENDED)
        self.moved = self.decoded = self.returned = False

    def plan(self) -> None:
        self._enter(Phase.PLANNED, Phase.BEGUN)

    def launch(self, core: Scheduler) -> None:
        self._enter(Phase.PLANNED, Phase.PLANNED)
        if core.in_flight is not None:
            raise ONE_STEP.broken(f"another begins while {core.in_flight} runs")

    def begin_end(self, core: Scheduler) -> None:
        self._had_ends = bool(core.ending)

    def end(self, core: Scheduler) -> None:
        self._enter(Phase.ENDED, Phase.PLANNED)
        now_ns = core.device.now_ns()
        if self.moved or now_ns != self._last_ns or not core.sequences:
            self._idle_ticks = 0
        else:
            self._idle_ticks += 1
        self._last_ns = now_ns
        if self._idle_ticks > MOST_IDLE_TICKS:
            raise PROGRESS.broken(f"{self._idle_ticks} ticks at {now_ns} ns, and nothing came of them")
        counters = core.num_arrived, core.batch.step, core.pool.num_evicted
        if any(now < before for now, before in zip(counters, self._counters, strict=True)):
            raise MONOTONE.broken(f"(arrivals, iterations, evictions) {counters} after {self._counters}")
        self._counters = counters
        if self._had_ends and core.device.facts.wants_dense_slots:
            slots_are_dense(core)

    def finish(self) -> None:
        """The driver's shutdown is a plan; a caller's own may come between two ticks."""
        self._enter(Phase.OVER, Phase.PLANNED, Phase.ENDED)

    def _enter(self, phase: Phase, *behind: Phase) -> None:
        if self._phase not in behind:
            raise ORDER.broken(f"{phase} after {self._phase}")
        self._phase = phase


def slots_are_dense(core: Scheduler) -> None:
    """Slots that a copy still uses are no better."""
    rows, slots = core.batch.rows, core.slots
    highest = max((row.slot for row in rows), default=-1)
    if highest < len(rows):
        return
    for slot in range(len(rows)):
        if slots.owner(slot) is None and not slots.is_open(slot):
            raise DENSE.broken(f"a row of {len(rows)} has slot {highest}, and slot {slot} is free")
