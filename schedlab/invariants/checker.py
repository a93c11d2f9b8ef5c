"""Follows a run, event by event and tick by tick, and raises at the first law that does not hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from schedlab.invariants.book import Book
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
from schedlab.invariants.ends import check_end
from schedlab.invariants.left import leaves_nothing_that_has_not_come, leaves_what_it_has
from schedlab.invariants.phases import ONE_DECODE, RETIRE_FIRST
from schedlab.invariants.pieces import pieces_end_for_a_reason
from schedlab.invariants.steps import check_step
from schedlab.invariants.ticks import Ticks
from schedlab.invariants.track import Track
from schedlab.invariants.ways import who_makes_way_is_swapped_out
from schedlab.request import FinishReason
from schedlab.sequence import NOT_YET, Sequence

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler


class Checker:
    """An observer of one scheduler that also looks at it after each of its ticks.

    An event costs O(1) and a tick too; laws about every owner of a seat are checked whenever the ticks since the last
    time pay for it (in each tick while there are at most 8), laws about every block and waiting request likewise, and
    all of them at the end of the run. Attach it before the run starts.

    Attributes:
        book: what was counted.
        ticks: what is looked at around each phase.

    Raises (from within the run): InvariantViolation, naming the law, what was found, whom it concerns and when.
    """

    def __init__(self) -> None:
        self.book = Book()
        self._chain = Chain()
        self.ticks = Ticks(self.book, self._chain)

    def attach(self, core: Scheduler) -> None:
        """Subscribe to the events of `core`, and look at it before and after its phases."""
        self._core = core
        core.bus.add(self)
        self.ticks.attach(core)

    def on_arrived(self, event: Arrived) -> None:
        self.book.pass_time(event.now_ns)
        self.ticks.phases.moved = True
        self.book.open(self._core, event)

    def on_refused(self, event: Refused) -> None:
        self.book.pass_time(event.now_ns)
        self.ticks.phases.moved = True
        told.check_refusal(self._core, event, is_known=event.sequence in self.book.tracks)

    def on_admitted(self, event: Admitted) -> None:
        track, core, sequence = self.book.follow(self._core, event.now_ns, event.sequence), self._core, event.sequence
        self.ticks.phases.moved = True
        for candidate in passed_over(core, sequence):
            passed = self.book.track(candidate)
            passed.passed += 1
            if passed.passed > core.config.max_bypass:
                raise OVERTAKEN.broken(
                    f"{sequence} passes {candidate}, passed {passed.passed} times", candidate.request_id
                )
        check_admission(core, sequence, self.ticks.evicted)
        self.ticks.room.comes_in(core, sequence)
        self.ticks.withheld.admitted(sequence)
        track.admitted_ns = event.now_ns
        self._start(track, sequence)

    def on_preempted(self, event: Preempted) -> None:
        track = self._leave(event.now_ns, event.sequence)
        track.preemptions += 1
        self.ticks.evicted.append(event.sequence)
        if event.reason in ("decode", "prefill", "priority"):
            leaves_what_it_has(self._core, event.sequence, track.computed(self.book.iterations))
        check_outputs_kept(event, track.outputs(self.book.iterations))
        need = need_of(self._core, event)
        if need is not None:
            check_victim(self._core, event.sequence, need)
        self.ticks.room.gives_way(self._core, event.sequence, to_somebody=need is not None)
        if need is Need.TOKENS:
            self.ticks.room.gave_blocks(self._core, event.sequence, event.freed_blocks)
        who_makes_way_is_swapped_out(self._core, event)
        track.restart()

    def on_resumed(self, event: Resumed) -> None:
        track = self.book.follow(self._core, event.now_ns, event.sequence)
        self.ticks.phases.returned = True
        check_resume(self._core, event.sequence)
        told.check_outputs(event.sequence, track.outputs(self.book.iterations))
        check_immunity(self._core, event.sequence)
        self._start(track, event.sequence)

    def on_swapped_out(self, event: SwappedOut) -> None:
        track = self._leave(event.now_ns, event.sequence)
        track.swaps += 1
        track.is_away = True
        self.ticks.evicted.append(event.sequence)
        told.check_image(event)
        need = need_of_swap(self._core, in_plan=self.ticks.room.is_planning, in_launch=self.ticks.is_launching)
        if need is not None:
            check_victim(self._core, event.sequence, need)
        self.ticks.room.gives_way(self._core, event.sequence, to_somebody=True)
        if need is Need.TOKENS:
            self.ticks.room.gave_blocks(self._core, event.sequence, event.num_blocks)

    def on_restoring(self, event: Restoring) -> None:
        self.book.follow(self._core, event.now_ns, event.sequence).coming = list(event.sequence.block_table)
        self.ticks.phases.returned = True
        check_resume(self._core, event.sequence)

    def on_restored(self, event: Restored) -> None:
        track = self.book.follow(self._core, event.now_ns, event.sequence)
        self.ticks.phases.moved = True
        told.check_restored(event.sequence, track, self.book.iterations)
        check_immunity(self._core, event.sequence)
        track.is_away = False
        track.coming = []

    def on_step_done(self, event: StepDone) -> None:
        core, book = self._core, self.book
        book.pass_time(core.device.now_ns())
        self.ticks.phases.moved = True
        chunks = event.chunks
        is_first_chunk = len(chunks) == 1 and not event.decode_rows and not book.track(chunks[0].sequence).chunks
        check_step(core, event, is_first_chunk=is_first_chunk, is_unlimited=self.ticks.launched.is_idle)
        if chunks:
            pieces_end_for_a_reason(core, event, self.ticks.launched)
        book.compute(event, core.device.now_ns())
        if event.decode_rows:
            self._decode(event)
            if core.config.window_blocks and core.config.prefix_cache:
                for row in event.batch.rows:
                    self._chain.excuse(row)

    def on_first_token(self, event: FirstToken) -> None:
        track = self.book.follow(self._core, event.now_ns, event.sequence)
        outputs = track.outputs(self.book.iterations)
        if outputs or not track.sampled or event.sequence.admitted_ns == NOT_YET:
            raise told.FIRST_TOKEN.broken(f"{event.sequence} after {outputs} outputs", event.sequence.request_id)
        track.first_token(event.now_ns)

    def on_finished(self, event: Finished) -> None:
        sequence = event.sequence
        track = self._leave(event.now_ns, sequence)
        if (
            self.ticks.phases.returned
            and event.reason in (FinishReason.STOP, FinishReason.LENGTH)
            and not self.ticks.is_over
        ):
            raise RETIRE_FIRST.broken(f"{sequence} ends after another has returned", sequence.request_id)
        if event.reason is not FinishReason.ERROR and not track.is_away:
            leaves_what_it_has(self._core, sequence, track.computed(self.book.iterations))
        self.ticks.phases.moved = True
        self.book.close(sequence, track)
        check_end(self._core, event, track, is_shutdown=self.ticks.is_over)

    def on_cache_reset(self, event: CacheReset) -> None:
        self.book.pass_time(event.now_ns)
        told.check_reset(self._core, event)

    def _start(self, track: Track, sequence: Sequence) -> None:
        track.start(sequence, self._core.config.block_size)
        if sequence.block_table:
            told.check_prefix(self._core, sequence)

    def _decode(self, event: StepDone) -> None:
        if self.ticks.phases.decoded:
            raise ONE_DECODE.broken(f"another of {event.decode_rows} rows")
        self.ticks.phases.decoded = True
        self.book.decode(event)
        if self.ticks.sweeps:
            self.book.check_rows(event, self._core.config.block_size)

    def _leave(self, now_ns: int, sequence: Sequence) -> Track:
        """A sequence gives up its place, in the batch or elsewhere, and what it has computed can be found by others."""
        track = self.book.leave(self._core, now_ns, sequence)
        if self._core.config.prefix_cache:
            self._chain.learn(sequence)
            leaves_nothing_that_has_not_come(self._core, sequence, track.coming)
        track.coming = []
        return track
