"""Looks at a scheduler before and after each phase of its ticks, at everything or at some, as the ticks pay for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from schedlab.core.plan import Lane
from schedlab.device import StepResult
from schedlab.errors import InvariantViolation
from schedlab.invariants.book import Book
from schedlab.invariants.chain import Chain
from schedlab.invariants.ends import note_unpublished
from schedlab.invariants.giving_up import Way, memory_is_given_up_as_configured, right_ways
from schedlab.invariants.last import nothing_is_left
from schedlab.invariants.phases import Phases
from schedlab.invariants.pieces import Launch
from schedlab.invariants.room import Room
from schedlab.invariants.sliding import windows_keep_their_share
from schedlab.invariants.state import check, check_moment, sweep
from schedlab.invariants.ways import Ways
from schedlab.invariants.withheld import Withheld, who_could_come_in_comes_in
from schedlab.memory.prefix import CachingBlockPool
from schedlab.sequence import Sequence

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler

# Every owner of a seat is looked at once per so many owners that a tick has earned, so always while they are no more.
SWEPT_PER_TICK = 8
# The full audit of blocks and queues runs once per this many (blocks + live sequences) a tick has earned.
AUDITED_PER_TICK = 16


class Ticks:
    """The ticks of one scheduler.

    Attributes:
        sweeps: this tick looks at every owner of a seat.
        evicted: who has given way since the tick began.
        launched: the lane of the step in flight, and the rows as it was asked for.
        is_launching: the scheduler is making a step.
        is_over: the run ends.
    """

    def __init__(self, book: Book, chain: Chain) -> None:
        self.phases = Phases()
        self.room = Room()
        self.withheld = Withheld()
        self.evicted: list[Sequence] = []
        self.sweeps = False
        self.launched = Launch(Lane.ALL, 0, is_idle=False)
        self.is_launching = False
        self.is_over = False
        self._book = book
        self._chain = chain
        self._ways = Ways()
        # Who is about to give way, and the ways that are right for it, if a rule names any.
        self._giving_way: tuple[Sequence, tuple[Way, ...] | None] | None = None
        self._sweep_credit = 0
        self._ticks_since_audit = 0

    def attach(self, core: Scheduler) -> None:
        """Look at `core` around each of its phases."""
        self._core = core
        self.room.attach(core)
        _around(core, "begin_tick", before=self._before_tick)
        _around(core, "receive")
        _around(core, "plan", before=self._before_plan, after=self._after_plan)
        _around(core, "launch", before=self._before_launch, after=self._after_launch)
        _around(core, "give_way", before=self._before_giving_way, after=self._after_giving_way)
        _around(core, "commit", before=self._before_commit)
        if core.config.window_blocks and core.config.prefix_cache:
            # A window may slide and its row give way within one plan.
            _around(core, "unseat", before=self._chain.excuse)
        _around(core, "end_tick", before=self._before_end, after=self._after_tick)
        _around(core, "finish", before=self._before_finish, after=self._after_finish)

    def _before_tick(self) -> None:
        self.phases.begin()
        self.room.begin()
        self.withheld.begin()
        self.evicted.clear()
        core = self._core
        owners = len(core.batch.rows) + len(core.prefilling) + len(core.restoring) + len(core.parked)
        self._sweep_credit += SWEPT_PER_TICK
        self.sweeps = self._sweep_credit >= owners
        if self.sweeps:
            self._sweep_credit = 0

    def _before_plan(self) -> None:
        self.phases.plan()
        self._ways.before_plan(self._core)
        self.room.before_plan(self._core)

    def _after_plan(self) -> None:
        """No plan leaves a sequence alive whose deadline has come, or a head that others would have made way for."""
        core = self._core
        self._ways.after_plan(core)
        self.room.after_plan(core)
        if not self.room.someone_gave_way and len(core.waiting):
            who_could_come_in_comes_in(core)
        if self.sweeps and core.config.window_blocks and not self.room.someone_gave_way:
            windows_keep_their_share(core)
        self._book.check_deadlines(core.device.now_ns())

    def _before_launch(self, lane: Lane) -> None:
        self.phases.launch(self._core)
        self.launched = Launch.of(self._core, lane)
        self.is_launching = True
        self.withheld.before_launch(self._core, lane)

    def _after_launch(self) -> None:
        self.is_launching = False
        self.withheld.after_launch(self._core, self.launched.lane, self.launched.num_rows)

    def _before_giving_way(self, sequence: Sequence, _: str) -> None:
        self._giving_way = sequence, right_ways(self._core, sequence)

    def _after_giving_way(self) -> None:
        assert self._giving_way is not None
        (sequence, ways), self._giving_way = self._giving_way, None
        if ways is not None:
            memory_is_given_up_as_configured(sequence, ways)

    def _before_commit(self, result: StepResult) -> None:
        """Note who ends with a failed step: its chunks, or without any its rows."""
        step = self._core.in_flight
        if result.fault is not None and step is not None:
            for sequence in [chunk.sequence for chunk in step.chunks] or list(self._core.batch.rows):
                track = self._book.track(sequence)
                track.failed = True
                note_unpublished(self._core, track, sequence.block_table)

    def _before_end(self) -> None:
        self.phases.begin_end(self._core)

    def _after_tick(self) -> None:
        core, book = self._core, self._book
        book.pass_time(core.device.now_ns())
        book.num_ticks += 1
        self._ticks_since_audit += 1
        self.phases.end(core)
        book.check_lives(core)
        self.withheld.after_tick(core, someone_gave_way=self.room.someone_gave_way)
        if self._ticks_since_audit * AUDITED_PER_TICK >= core.pool.total_blocks + len(core.sequences):
            self._audit()
        elif self.sweeps:
            check_moment(core)
            sweep(core)
            book.check_windows(core)
        else:
            check_moment(core)

    def _before_finish(self) -> None:
        self.phases.finish()
        self.is_over = True
        for sequence in self._core.view.owners():
            note_unpublished(self._core, self._book.track(sequence), sequence.block_table)

    def _after_finish(self) -> None:
        self._book.check_ends()
        nothing_is_left(self._core)
        self._book.check_tokens()
        self._audit()

    def _audit(self) -> None:
        self._ticks_since_audit = 0
        check(self._core)
        self._book.check_windows(self._core)
        if isinstance(self._core.pool, CachingBlockPool):
            self._chain.check(self._core.pool)


def _around(
    core: Scheduler, method: str, before: Callable[..., None] | None = None, after: Callable[[], None] | None = None
) -> None:
    """Make `core.method(...)` call `before` with the same arguments first and `after` in the end.

    Violations from within learn what time it is.
    """
    inner = getattr(core, method)

    def call(*arguments: object) -> object:
        try:
            if before is not None:
                before(*arguments)
            result = inner(*arguments)
            if after is not None:
                after()
        except InvariantViolation as violation:
            if violation.now_ns is None:
                violation.now_ns = core.device.now_ns()
            raise
        return result

    setattr(core, method, call)
