"""Follows a run, event by event and tick by tick, and raises at the first law that does not hold."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from schedlab.device import StepResult
from schedlab.events import (
    Admitted,
    Arrived,
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
from schedlab.invariants.choices import check_admission, check_resume, check_victim
from schedlab.invariants.state import check, check_tick
from schedlab.invariants.steps import check_step
from schedlab.invariants.track import Track
from schedlab.invariants.violation import violation
from schedlab.memory.blocks import blocks_for
from schedlab.request import FinishReason
from schedlab.sequence import NOT_YET, Sequence, State

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler

# The full audit of blocks and queues runs once per this many (blocks + live sequences) a tick has earned.
AUDITED_PER_TICK = 64


class Checker:
    """An observer of one scheduler that also looks at it after each of its ticks.

    A tick costs O(owners of seats); laws about every block and every waiting sequence are checked whenever the ticks
    since the last time pay for it, and always at the end of the run. Attach it before the run starts.

    Raises (from within the run): InvariantViolation, naming the law and the numbers.
    """

    def __init__(self) -> None:
        self._tracks: dict[Sequence, Track] = {}
        self._deadlines: list[tuple[int, int, Sequence]] = []
        self._now_ns = 0
        self._ticks_since_audit = 0
        self._evicted_in_plan: list[Sequence] = []
        self.num_accepted = 0
        self.num_finished = 0
        self.prefill_tokens = 0
        self.recomputed_tokens = 0
        self.num_ticks = 0
        self._is_over = False

    def attach(self, core: Scheduler) -> None:
        """Subscribe to the events of `core`, and look at it after each plan, each tick and its finish."""
        self._core = core
        core.bus.add(self)
        _around(core, "begin_tick", before=self._evicted_in_plan.clear)
        _around(core, "plan", after=self._after_plan)
        _around(core, "commit", before=self._before_commit)
        _around(core, "end_tick", after=self._after_tick)
        _around(core, "finish", before=self._before_finish, after=self._after_finish)

    def on_arrived(self, event: Arrived) -> None:
        self._pass_time(event.now_ns)
        sequence = event.sequence
        if sequence in self._tracks or sequence.state is not State.PENDING:
            raise violation("arrives_once", f"{sequence} arrives at {event.now_ns} ns")
        if event.now_ns < sequence.request.arrival_ns:
            raise violation("arrives_in_time", f"{sequence} of {sequence.request.arrival_ns} is seen at {event.now_ns}")
        self._tracks[sequence] = Track()
        self.num_accepted += 1
        if sequence.request.deadline_ns is not None:
            heappush(self._deadlines, (sequence.request.deadline_ns, sequence.arrival_index, sequence))

    def on_refused(self, event: Refused) -> None:
        self._pass_time(event.now_ns)
        if event.sequence in self._tracks or not event.reason:
            raise violation("refused_never_waits", f"{event.sequence} is refused: {event.reason!r}")

    def on_admitted(self, event: Admitted) -> None:
        track = self._follow(event.now_ns, event.sequence)
        check_admission(self._core, event.sequence, self._evicted_in_plan)
        track.start(event.sequence, self._core.config.block_size)

    def on_preempted(self, event: Preempted) -> None:
        track = self._follow(event.now_ns, event.sequence)
        self._evicted_in_plan.append(event.sequence)
        check_victim(self._core, event, track.outputs)
        track.restart()

    def on_resumed(self, event: Resumed) -> None:
        track = self._follow(event.now_ns, event.sequence)
        check_resume(self._core, event.sequence)
        if event.sequence.num_outputs != track.outputs:
            raise violation("preemption_keeps_outputs", f"{event.sequence}: {track.outputs}")
        track.start(event.sequence, self._core.config.block_size)

    def on_swapped_out(self, event: SwappedOut) -> None:
        self._follow(event.now_ns, event.sequence)
        self._evicted_in_plan.append(event.sequence)
        image = event.sequence.image
        if image is None or event.num_blocks != image.num_blocks:
            raise violation("an_image_holds_all_blocks", f"{event.sequence}: {event.num_blocks} blocks, {image}")

    def on_restoring(self, event: Restoring) -> None:
        self._follow(event.now_ns, event.sequence)
        check_resume(self._core, event.sequence)

    def on_restored(self, event: Restored) -> None:
        sequence, track = event.sequence, self._follow(event.now_ns, event.sequence)
        if (sequence.num_outputs, sequence.num_computed) != (track.outputs, track.computed):
            raise violation(
                "a_swap_keeps_everything",
                f"{sequence} has (outputs, tokens) {sequence.num_outputs, sequence.num_computed}, counted "
                f"{track.outputs, track.computed}",
            )

    def on_step_done(self, event: StepDone) -> None:
        self._pass_time(self._core.device.now_ns())
        check_step(self._core, event)
        for chunk in event.chunks:
            self._track(chunk.sequence).compute(chunk)
            self.prefill_tokens += chunk.num_tokens
        if not event.decode_rows:
            return
        for sequence in event.batch.rows:
            track = self._track(sequence)
            track.decode(event.pace.count)
            found = event.batch.outputs(sequence), event.batch.length(sequence)
            if found != (track.outputs, track.computed):
                raise violation(
                    "each_row_gets_one_token_an_iteration",
                    f"{sequence} has (outputs, tokens) {found}, counted {track.outputs, track.computed}",
                )

    def on_first_token(self, event: FirstToken) -> None:
        track = self._follow(event.now_ns, event.sequence)
        if track.outputs or not track.sampled or event.sequence.admitted_ns == NOT_YET:
            raise violation("first_token_once", f"{event.sequence} at {event.now_ns} ns after {track.outputs} outputs")
        track.outputs = 1

    def on_finished(self, event: Finished) -> None:
        sequence = event.sequence
        track = self._follow(event.now_ns, sequence)
        del self._tracks[sequence]
        self.num_finished += 1
        self.recomputed_tokens += sequence.num_recomputed_tokens
        self._ended_well(event)
        self._error_is_true(event, track)
        track.check_totals(sequence)

    def _ended_well(self, event: Finished) -> None:
        sequence, core = event.sequence, self._core
        if sequence.state is not State.FINISHED or sequence.finish_reason is not event.reason:
            raise violation("finished_is_finished", f"{sequence}, {sequence.finish_reason}, {event.reason}")
        if sequence.block_table or sequence.reserved_blocks or core.sequences.get(sequence.request_id) is sequence:
            raise violation("finished_holds_nothing", f"{sequence} has blocks {sequence.block_table}")
        if sequence in core.batch or sequence in core.prefilling or (core.ledger and core.ledger.holds(sequence)):
            raise violation("finished_holds_nothing", f"{sequence} has a place in the batch, a lane or the ledger")
        times = [sequence.request.arrival_ns, sequence.admitted_ns, sequence.first_token_ns, sequence.last_token_ns]
        times = [time for time in [*times, sequence.finished_ns, event.now_ns] if time != NOT_YET]
        if times != sorted(times):
            raise violation("times_never_go_back", f"{sequence}: arrival, admission, tokens, end are {times}")
        if event.reason is FinishReason.REFUSED or (event.reason is FinishReason.ERROR and not sequence.error):
            raise violation("ends_with_a_reason", f"{sequence}: {event.reason} {sequence.error!r}")
        if event.reason is FinishReason.LENGTH and sequence.num_outputs != sequence.max_outputs:
            raise violation("length_means_all_outputs", f"{sequence}: {sequence.num_outputs} of {sequence.max_outputs}")
        if event.reason is FinishReason.TIMEOUT and event.now_ns < (sequence.request.deadline_ns or 0):
            raise violation("no_timeout_before_the_deadline", f"{sequence}: {sequence.request.deadline_ns}")

    def _error_is_true(self, event: Finished, track: Track) -> None:
        """An error is a failed step, a shutdown, or more tokens than the whole pool holds; and a failed step is one."""
        sequence, core = event.sequence, self._core
        is_error = event.reason is FinishReason.ERROR
        if track.failed and not is_error:
            raise violation("a_failed_step_ends_its_rows", f"{sequence} was in one and ends with {event.reason}")
        needed_blocks = blocks_for(sequence.num_prompt_tokens + sequence.num_outputs, core.config.block_size)
        if is_error and not (track.failed or self._is_over or needed_blocks > core.pool.total_blocks):
            raise violation(
                "nobody_ends_while_it_could_go_on",
                f"{sequence} needs {needed_blocks} of {core.pool.total_blocks} blocks and ends: {sequence.error}",
            )

    def _after_plan(self) -> None:
        """No plan leaves a sequence alive whose deadline has come."""
        deadlines, now_ns = self._deadlines, self._core.device.now_ns()
        while deadlines and deadlines[0][2] not in self._tracks:
            heappop(deadlines)
        if deadlines and deadlines[0][0] <= now_ns:
            raise violation("timeouts_are_swept", f"{deadlines[0][2]}, due {deadlines[0][0]}, lives on at {now_ns} ns")

    def _before_commit(self, result: StepResult) -> None:
        """Note who ends with a failed step: its chunks, or without any its rows."""
        step = self._core.in_flight
        if result.fault is not None and step is not None:
            for sequence in [chunk.sequence for chunk in step.chunks] or list(self._core.batch.rows):
                self._track(sequence).failed = True

    def _before_finish(self) -> None:
        self._is_over = True

    def _after_tick(self) -> None:
        core = self._core
        self._pass_time(core.device.now_ns())
        self.num_ticks += 1
        self._ticks_since_audit += 1
        if len(self._tracks) != len(core.sequences):
            raise violation("every_request_is_live_or_ended", f"{len(self._tracks)} live, {len(core.sequences)} known")
        if self._ticks_since_audit * AUDITED_PER_TICK >= core.pool.total_blocks + len(core.sequences):
            self._ticks_since_audit = 0
            check(core)
        else:
            check_tick(core)

    def _after_finish(self) -> None:
        check(self._core)
        if self._tracks or self.num_finished != self.num_accepted:
            raise violation("every_request_ends_once", f"{self.num_accepted} accepted, {self.num_finished} ended")
        if self._core.pool.used_blocks:
            raise violation("all_blocks_come_back", f"{self._core.pool.used_blocks} blocks are used after the end")

    def _pass_time(self, now_ns: int) -> None:
        if now_ns < self._now_ns:
            raise violation("times_never_go_back", f"{now_ns} ns after {self._now_ns} ns")
        self._now_ns = now_ns

    def _follow(self, now_ns: int, sequence: Sequence) -> Track:
        self._pass_time(now_ns)
        return self._track(sequence)

    def _track(self, sequence: Sequence) -> Track:
        track = self._tracks.get(sequence)
        if track is None:
            raise violation("nothing_before_arrival_or_after_the_end", f"{sequence} has an event")
        return track


def _around(
    core: Scheduler, method: str, before: Callable[..., None] | None = None, after: Callable[[], None] | None = None
) -> None:
    """Make `core.method(...)` call `before` with the same arguments first and `after` in the end."""
    inner = getattr(core, method)

    def call(*arguments: object) -> object:
        if before is not None:
            before(*arguments)
        result = inner(*arguments)
        if after is not None:
            after()
        return result

    setattr(core, method, call)
