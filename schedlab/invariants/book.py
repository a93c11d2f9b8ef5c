"""What every live request has done so far, counted from its events and steps alone."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from schedlab.events import Arrived, StepDone
from schedlab.invariants import events as told
from schedlab.invariants.ends import TIMES
from schedlab.invariants.phases import STILL
from schedlab.invariants.steps import ROWS, blocks_hold_what_was_written
from schedlab.invariants.track import Track
from schedlab.sequence import NOT_YET, Sequence

if TYPE_CHECKING:
    from schedlab.core.scheduler import Scheduler


class Book:
    """A track of each live request, and sums over all that have lived. Every entry is O(1).

    Attributes:
        iterations: of the decode batch so far.
        lived_tokens: of all that have ended, prefilled and decoded.
    """

    def __init__(self) -> None:
        self.tracks: dict[Sequence, Track] = {}
        self.iterations = 0
        self.num_accepted = 0
        self.num_finished = 0
        self.num_ticks = 0
        self.prefill_tokens = 0
        self.decode_tokens = 0
        self.recomputed_tokens = 0
        self.lived_tokens = 0
        self._num_rows = 0
        self._deadlines: list[tuple[int, int, Sequence]] = []
        self._last_decode_ns = NOT_YET
        self._now_ns = 0

    def pass_time(self, now_ns: int) -> None:
        """Something happens then."""
        if now_ns < self._now_ns:
            raise TIMES.broken(f"{now_ns} ns after {self._now_ns} ns")
        self._now_ns = now_ns

    def track(self, sequence: Sequence) -> Track:
        """Of a request that lives."""
        track = self.tracks.get(sequence)
        if track is None:
            raise told.KNOWN.broken(f"{sequence} has an event", sequence.request_id)
        return track

    def follow(self, core: Scheduler, now_ns: int, sequence: Sequence) -> Track:
        """Something happens to it, which nothing does while a step runs."""
        self.pass_time(now_ns)
        if core.in_flight is not None:
            raise STILL.broken(f"{sequence} has an event ({sequence.state})", sequence.request_id)
        return self.track(sequence)

    def leave(self, core: Scheduler, now_ns: int, sequence: Sequence) -> Track:
        """It gives up its place, in the batch or elsewhere."""
        track = self.follow(core, now_ns, sequence)
        self._num_rows -= track.leave(self.iterations, self._last_decode_ns)
        return track

    def open(self, core: Scheduler, event: Arrived) -> None:
        """A request has come."""
        sequence = event.sequence
        told.check_arrival(core, event, is_known=sequence in self.tracks)
        self.tracks[sequence] = Track()
        self.num_accepted += 1
        if sequence.request.deadline_ns is not None:
            heappush(self._deadlines, (sequence.request.deadline_ns, sequence.arrival_index, sequence))

    def close(self, sequence: Sequence, track: Track) -> None:
        """It has ended."""
        del self.tracks[sequence]
        self.num_finished += 1
        self.recomputed_tokens += sequence.num_recomputed_tokens
        self.lived_tokens += track.prefilled_tokens + track.decoded_tokens

    def compute(self, event: StepDone, now_ns: int) -> None:
        """A step has computed these pieces of prompts."""
        for chunk in event.chunks:
            self.tracks[chunk.sequence].compute(chunk, now_ns)
            self.prefill_tokens += chunk.num_tokens

    def decode(self, event: StepDone) -> None:
        """A step has decoded, for all rows at once; who has joined is known from the announcement."""
        for sequence in event.newcomers:
            track = self.track(sequence)
            if track.joined != NOT_YET:
                raise ROWS.broken(f"{sequence} is announced, and was a row before", sequence.request_id)
            track.join(self.iterations)
            self._num_rows += 1
        if event.decode_rows != self._num_rows:
            raise ROWS.broken(f"{event.decode_rows} rows, {self._num_rows} have joined and not left")
        self.iterations += event.pace.count
        self._last_decode_ns = self._now_ns
        self.decode_tokens += event.decode_rows * event.pace.count

    def check_rows(self, event: StepDone, block_size: int) -> None:
        """Each has as many tokens and outputs as were counted, and blocks for them. O(rows)."""
        iterations, tracks = self.iterations, self.tracks
        length_of, outputs_of = event.batch.length, event.batch.outputs
        for row in event.batch.rows:
            track, length, outputs = tracks.get(row) or self.track(row), length_of(row), outputs_of(row)
            if length != track.computed(iterations) or outputs != track.outputs(iterations):
                raise told.ONE_TOKEN.broken(
                    f"{row} has (outputs, tokens) {outputs, length}, counted "
                    f"{track.outputs(iterations), track.computed(iterations)}",
                    row.request_id,
                )
            blocks_hold_what_was_written(row, length, block_size)

    def check_windows(self, core: Scheduler) -> None:
        """They only move on. O(rows), and nothing where there are none."""
        if core.config.window_blocks:
            for sequence in core.batch.rows:
                self.track(sequence).check_window(sequence)

    def check_deadlines(self, now_ns: int) -> None:
        """Nobody lives whose time was over before this plan."""
        deadlines = self._deadlines
        while deadlines and deadlines[0][2] not in self.tracks:
            heappop(deadlines)
        if deadlines and deadlines[0][0] <= now_ns:
            due_ns, _, sequence = deadlines[0]
            raise told.SWEPT.broken(f"{sequence}, due at {due_ns} ns, lives on", sequence.request_id)

    def check_lives(self, core: Scheduler) -> None:
        """The scheduler knows as many as live."""
        if len(self.tracks) != len(core.sequences):
            raise told.LIVE_OR_ENDED.broken(f"{len(self.tracks)} live, {len(core.sequences)} known")

    def check_ends(self) -> None:
        """When all is over: each has ended once."""
        if self.tracks or self.num_finished != self.num_accepted:
            raise told.ENDS_ONCE.broken(f"{self.num_accepted} accepted, {self.num_finished} ended")

    def check_tokens(self) -> None:
        """When all is over: the lanes have computed what the requests have got."""
        told.check_lane_tokens(self.prefill_tokens + self.decode_tokens, self.lived_tokens)
