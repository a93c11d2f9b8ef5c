"""Follows a run, event by event and tick by tick, and raises at the first law that does not hold."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from schedlab.core.plan import Lane
from schedlab.device import StepResult
from schedlab.errors import InvariantViolation
from schedlab.events import (
    Admitted,
    Arrived,
    CacheReset,
    Finished,
    FirstToken,
    Preempted,
    Refused,
    Restored,
    Restoring,
    Resumed,
    StepDone,
    SwappedOut,
)
from schedlab.invariants import events as told
from schedlab.invariants.chain import Chain
from schedlab.invariants.choices import (
    OVERTAKEN,
    Need,
    check_admission,
    check_immunity,
    check_outputs_kept,
    check_resume,
    check_victim,
    need_of,
    need_of_swap,
    passed_over,
)
from schedlab.invariants.ends import TIMES, check_end, note_unpublished
from schedlab.invariants.giving_up import Way, memory_is_given_up_as_configured, right_ways
from schedlab.invariants.last import nothing_is_left
from schedlab.invariants.left import leaves_nothing_that_has_not_come, leaves_what_it_has
from schedlab.invariants.phases import ONE_DECODE, RETIRE_FIRST, STILL, Phases
from schedlab.invariants.pieces import Launch, pieces_end_for_a_reason
from schedlab.invariants.room import Room
from schedlab.invariants.sliding import windows_keep_their_share
from schedlab.invariants.state import check, check_moment, sweep
from schedlab.invariants.steps import ROWS, blocks_hold_what_was_written, check_step
from schedlab.invariants.track import Track
from schedlab.invariants.ways import Ways, who_makes_way_is_swapped_out
from schedlab.invariants.withheld import Withheld, who_could_come_in_comes_in
from schedlab.memory.prefix import CachingBlockPool
from schedlab.request import FinishReason
from schedlab.sequence import NOT_YET, Sequence

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler

# Every owner of a seat is looked at once per so many owners that a tick has earned, so always while they are no more.
SWEPT_PER_TICK = 8
# The full audit of blocks and queues runs once per this many (blocks + live sequences) a tick has earned.
AUDITED_PER_TICK = 16


class Checker:
    """An observer of one scheduler that also looks at it after each of its ticks.

    An event costs O(1) and a tick too; laws about every owner of a seat are checked whenever the ticks since the last
    time pay for it (in each tick while there are at most 8), laws about every block and waiting request likewise, and
    all of them at the end of the run. Attach it before the run starts.

    Raises (from within the run): InvariantViolation, naming the law, what was found, whom it concerns and when.
    """

    def __init__(self) -> None:
        self._tracks: dict[Sequence, Track] = {}
        self._deadlines: list[tuple[int, int, Sequence]] = []
        self._phases = Phases()
        self._chain = Chain()
        self._ways = Ways()
        self._room = Room()
        self._withheld = Withheld()
        self._now_ns = 0
        self._sweep_credit = 0
        self._sweeps = False
        self._ticks_since_audit = 0
        self._evicted_in_plan: list[Sequence] = []
        # The lane of the step in flight, and the rows as it was asked for.
        self._launched = Launch(Lane.ALL, 0, is_idle=False)
        self._is_launching = False
        # Who is about to give way, and the ways that are right for it, if a rule names any.
        self._giving_way: tuple[Sequence, tuple[Way, ...] | None] | None = None
        # Iterations of the decode batch so far, and its rows.
        self._iterations = 0
        self._num_rows = 0
        self._last_decode_ns = NOT_YET
        self._is_over = False
        self.num_accepted = 0
        self.num_finished = 0
        self.prefill_tokens = 0
        self.decode_tokens = 0
        self.recomputed_tokens = 0
        self.lived_tokens = 0
        self.num_ticks = 0

    def attach(self, core: Scheduler) -> None:
        """Subscribe to the events of `core`, and look at it before and after its phases."""
        self._core = core
        core.bus.add(self)
        self._room.attach(core)
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

    # Events.

    def on_arrived(self, event: Arrived) -> None:
        self._pass_time(event.now_ns)
        self._phases.moved = True
        told.check_arrival(self._core, event, is_known=event.sequence in self._tracks)
        sequence = event.sequence
        self._tracks[sequence] = Track()
        self.num_accepted += 1
        if sequence.request.deadline_ns is not None:
            heappush(self._deadlines, (sequence.request.deadline_ns, sequence.arrival_index, sequence))

    def on_refused(self, event: Refused) -> None:
        self._pass_time(event.now_ns)
        self._phases.moved = True
        told.check_refusal(self._core, event, is_known=event.sequence in self._tracks)

    def on_admitted(self, event: Admitted) -> None:
        track, core, sequence = self._follow(event.now_ns, event.sequence), self._core, event.sequence
        self._phases.moved = True
        for candidate in passed_over(core, sequence):
            passed = self._track(candidate)
            passed.passed += 1
            if passed.passed > core.config.max_bypass:
                raise OVERTAKEN.broken(
                    f"{sequence} passes {candidate}, passed {passed.passed} times", candidate.request_id
                )
        check_admission(core, sequence, self._evicted_in_plan)
        self._room.comes_in(core, sequence)
        self._withheld.admitted(sequence)
        track.admitted_ns = event.now_ns
        self._start(track, sequence)

    def on_preempted(self, event: Preempted) -> None:
        track = self._leave(event.now_ns, event.sequence)
        track.preemptions += 1
        self._evicted_in_plan.append(event.sequence)
        if event.reason in ("decode", "prefill", "priority"):
            leaves_what_it_has(self._core, event.sequence, track.computed(self._iterations))
        check_outputs_kept(event, track.outputs(self._iterations))
        need = need_of(self._core, event)
        if need is not None:
            check_victim(self._core, event.sequence, need)
        self._room.gives_way(self._core, event.sequence, to_somebody=need is not None)
        if need is Need.TOKENS:
            self._room.gave_blocks(self._core, event.sequence, event.freed_blocks)
        who_makes_way_is_swapped_out(self._core, event)
        track.restart()

    def on_resumed(self, event: Resumed) -> None:
        track = self._follow(event.now_ns, event.sequence)
        self._phases.returned = True
        check_resume(self._core, event.sequence)
        told.check_outputs(event.sequence, track.outputs(self._iterations))
        check_immunity(self._core, event.sequence)
        self._start(track, event.sequence)

    def on_swapped_out(self, event: SwappedOut) -> None:
        track = self._leave(event.now_ns, event.sequence)
        track.swaps += 1
        track.is_away = True
        self._evicted_in_plan.append(event.sequence)
        told.check_image(event)
        need = need_of_swap(self._core, in_plan=self._room.is_planning, in_launch=self._is_launching)
        if need is not None:
            check_victim(self._core, event.sequence, need)
        self._room.gives_way(self._core, event.sequence, to_somebody=True)
        if need is Need.TOKENS:
            self._room.gave_blocks(self._core, event.sequence, event.num_blocks)

    def on_restoring(self, event: Restoring) -> None:
        self._follow(event.now_ns, event.sequence).coming = list(event.sequence.block_table)
        self._phases.returned = True
        check_resume(self._core, event.sequence)

    def on_restored(self, event: Restored) -> None:
        track = self._follow(event.now_ns, event.sequence)
        self._phases.moved = True
        told.check_restored(event.sequence, track, self._iterations)
        check_immunity(self._core, event.sequence)
        track.is_away = False
        track.coming = []

    def on_step_done(self, event: StepDone) -> None:
        core, tracks = self._core, self._tracks
        self._pass_time(core.device.now_ns())
        self._phases.moved = True
        chunks = event.chunks
        is_first_chunk = len(chunks) == 1 and not event.decode_rows and not self._track(chunks[0].sequence).chunks
        check_step(core, event, is_first_chunk=is_first_chunk, is_unlimited=self._launched.is_idle)
        if chunks:
            pieces_end_for_a_reason(core, event, self._launched)
        for chunk in chunks:
            tracks[chunk.sequence].compute(chunk, core.device.now_ns())
            self.prefill_tokens += chunk.num_tokens
        if event.decode_rows:
            self._decode(event)
            if core.config.window_blocks and core.config.prefix_cache:
                for row in event.batch.rows:
                    self._chain.excuse(row)

    def on_first_token(self, event: FirstToken) -> None:
        track = self._follow(event.now_ns, event.sequence)
        outputs = track.outputs(self._iterations)
        if outputs or not track.sampled or event.sequence.admitted_ns == NOT_YET:
            raise told.FIRST_TOKEN.broken(f"{event.sequence} after {outputs} outputs", event.sequence.request_id)
        track.first_token(event.now_ns)

    def on_finished(self, event: Finished) -> None:
        sequence = event.sequence
        track = self._leave(event.now_ns, sequence)
        if self._phases.returned and event.reason in (FinishReason.STOP, FinishReason.LENGTH) and not self._is_over:
            raise RETIRE_FIRST.broken(f"{sequence} ends after another has returned", sequence.request_id)
        if event.reason is not FinishReason.ERROR and not track.is_away:
            leaves_what_it_has(self._core, sequence, track.computed(self._iterations))
        self._phases.moved = True
        del self._tracks[sequence]
        self.num_finished += 1
        self.recomputed_tokens += sequence.num_recomputed_tokens
        self.lived_tokens += track.prefilled_tokens + track.decoded_tokens
        check_end(self._core, event, track, is_shutdown=self._is_over)

    def on_cache_reset(self, event: CacheReset) -> None:
        self._pass_time(event.now_ns)
        told.check_reset(self._core, event)

    # Phases of a tick.

    def _before_tick(self) -> None:
        self._phases.begin()
        self._room.begin()
        self._withheld.begin()
        self._evicted_in_plan.clear()
        core = self._core
        owners = len(core.batch.rows) + len(core.prefilling) + len(core.restoring) + len(core.parked)
        self._sweep_credit += SWEPT_PER_TICK
        self._sweeps = self._sweep_credit >= owners
        if self._sweeps:
            self._sweep_credit = 0

    def _before_plan(self) -> None:
        self._phases.plan()
        self._ways.before_plan(self._core)
        self._room.before_plan(self._core)

    def _after_plan(self) -> None:
        """No plan leaves a sequence alive whose deadline has come, or a head that others would have made way for."""
        self._ways.after_plan(self._core)
        self._room.after_plan(self._core)
        if not self._room.someone_gave_way and len(self._core.waiting):
            who_could_come_in_comes_in(self._core)
        if self._sweeps and self._core.config.window_blocks and not self._room.someone_gave_way:
            windows_keep_their_share(self._core)
        deadlines, now_ns = self._deadlines, self._core.device.now_ns()
        while deadlines and deadlines[0][2] not in self._tracks:
            heappop(deadlines)
        if deadlines and deadlines[0][0] <= now_ns:
            due_ns, _, sequence = deadlines[0]
            raise told.SWEPT.broken(f"{sequence}, due at {due_ns} ns, lives on", sequence.request_id)

    def _before_launch(self, lane: Lane) -> None:
        self._phases.launch(self._core)
        self._launched = Launch.of(self._core, lane)
        self._is_launching = True
        self._withheld.before_launch(self._core, lane)

    def _after_launch(self) -> None:
        self._is_launching = False
        self._withheld.after_launch(self._core, self._launched.lane, self._launched.num_rows)

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
                track = self._track(sequence)
                track.failed = True
                note_unpublished(self._core, track, sequence.block_table)

    def _before_end(self) -> None:
        self._phases.begin_end(self._core)

    def _after_tick(self) -> None:
        core = self._core
        self._pass_time(core.device.now_ns())
        self.num_ticks += 1
        self._ticks_since_audit += 1
        self._phases.end(core)
        if len(self._tracks) != len(core.sequences):
            raise told.LIVE_OR_ENDED.broken(f"{len(self._tracks)} live, {len(core.sequences)} known")
        self._withheld.after_tick(core, someone_gave_way=self._room.someone_gave_way)
        if self._ticks_since_audit * AUDITED_PER_TICK >= core.pool.total_blocks + len(core.sequences):
            self._audit()
        elif self._sweeps:
            check_moment(core)
            sweep(core)
            self._look_at_windows()
        else:
            check_moment(core)

    def _before_finish(self) -> None:
        self._phases.finish()
        self._is_over = True
        for sequence in self._core.view.owners():
            note_unpublished(self._core, self._track(sequence), sequence.block_table)

    def _after_finish(self) -> None:
        if self._tracks or self.num_finished != self.num_accepted:
            raise told.ENDS_ONCE.broken(f"{self.num_accepted} accepted, {self.num_finished} ended")
        nothing_is_left(self._core)
        told.check_lane_tokens(self.prefill_tokens + self.decode_tokens, self.lived_tokens)
        self._audit()

    # What several of them do.

    def _start(self, track: Track, sequence: Sequence) -> None:
        track.start(sequence, self._core.config.block_size)
        if sequence.block_table:
            told.check_prefix(self._core, sequence)

    def _decode(self, event: StepDone) -> None:
        """Count for all rows at once; who has joined is known from the announcement."""
        if self._phases.decoded:
            raise ONE_DECODE.broken(f"another of {event.decode_rows} rows")
        self._phases.decoded = True
        for sequence in event.newcomers:
            track = self._track(sequence)
            if track.joined != NOT_YET:
                raise ROWS.broken(f"{sequence} is announced, and was a row before", sequence.request_id)
            track.join(self._iterations)
            self._num_rows += 1
        if event.decode_rows != self._num_rows:
            raise ROWS.broken(f"{event.decode_rows} rows, {self._num_rows} have joined and not left")
        self._iterations += event.pace.count
        self._last_decode_ns = self._now_ns
        self.decode_tokens += event.decode_rows * event.pace.count
        if self._sweeps:
            self._look_at_rows(event)

    def _look_at_rows(self, event: StepDone) -> None:
        size, iterations, tracks = self._core.config.block_size, self._iterations, self._tracks
        length_of, outputs_of = event.batch.length, event.batch.outputs
        for row in event.batch.rows:
            track, length, outputs = tracks.get(row) or self._track(row), length_of(row), outputs_of(row)
            if length != track.computed(iterations) or outputs != track.outputs(iterations):
                raise told.ONE_TOKEN.broken(
                    f"{row} has (outputs, tokens) {outputs, length}, counted "
                    f"{track.outputs(iterations), track.computed(iterations)}",
                    row.request_id,
                )
            blocks_hold_what_was_written(row, length, size)

    def _audit(self) -> None:
        self._ticks_since_audit = 0
        check(self._core)
        self._look_at_windows()
        if isinstance(self._core.pool, CachingBlockPool):
            self._chain.check(self._core.pool)

    def _look_at_windows(self) -> None:
        if self._core.config.window_blocks:
            for sequence in self._core.batch.rows:
                self._track(sequence).check_window(sequence)

    def _pass_time(self, now_ns: int) -> None:
        if now_ns < self._now_ns:
            raise TIMES.broken(f"{now_ns} ns after {self._now_ns} ns")
        self._now_ns = now_ns

    def _leave(self, now_ns: int, sequence: Sequence) -> Track:
        """A sequence gives up its place, in the batch or elsewhere, and what it has computed can be found by others."""
        track = self._follow(now_ns, sequence)
        self._num_rows -= track.leave(self._iterations, self._last_decode_ns)
        if self._core.config.prefix_cache:
            self._chain.learn(sequence)
            leaves_nothing_that_has_not_come(self._core, sequence, track.coming)
        track.coming = []
        return track

    def _follow(self, now_ns: int, sequence: Sequence) -> Track:
        self._pass_time(now_ns)
        if self._core.in_flight is not None:
            raise STILL.broken(f"{sequence} has an event ({sequence.state})", sequence.request_id)
        return self._track(sequence)

    def _track(self, sequence: Sequence) -> Track:
        track = self._tracks.get(sequence)
        if track is None:
            raise told.KNOWN.broken(f"{sequence} has an event", sequence.request_id)
        return track


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
