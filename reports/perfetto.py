"""A trace of the busiest minute, or of a window asked for, that ui.perfetto.dev opens."""

from __future__ import annotations

from itertools import islice
from math import isfinite
from pathlib import Path

from backends.sim.links import CopyTicket
from reports.perfetto_json import write_trace
from reports.perfetto_window import MOST_SLICES, CopySlice, Preemption, RequestSpan, TraceWindow
from schedlab.device import FOREVER_NS
from schedlab.errors import UsageError
from schedlab.events import Arrived, Finished, Preempted, Restoring, Resumed, StepDone, SwappedOut
from schedlab.pace import Pace, ns_to_quanta, quanta_to_ns
from schedlab.sequence import Sequence

NS_PER_S = 1_000_000_000
WINDOW_NS = 60 * NS_PER_S


def parse_window(text: str) -> tuple[int, int]:
    """`START-END` in simulated seconds to nanoseconds.

    Raises:
        UsageError: it is no such pair, or END is not after START.
    """
    start, _, end = text.partition("-")
    try:
        start_s, end_s = float(start), float(end)
    except ValueError:
        start_s = end_s = 0.0
    if not (isfinite(end_s) and 0 <= start_s < end_s < FOREVER_NS / NS_PER_S):
        raise UsageError(
            f"--perfetto-window: {text!r} is no START-END in seconds with START before END, such as 120-180"
        )
    return round(start_s * NS_PER_S), round(end_s * NS_PER_S)


class PerfettoRecorder:
    """Observer: keeps the slices of one window, bounded in memory, and writes them.

    Without `window_ns` the window is the busiest 60 s: of the windows that begin at multiples of 60 s the one that
    processed most tokens, the first among equals. Only the best one so far and the present one are kept.
    """

    def __init__(self, window_ns: tuple[int, int] | None = None, most_slices: int = MOST_SLICES) -> None:
        self._asked = window_ns is not None
        self._most_slices = most_slices
        self._window = TraceWindow(*(window_ns or (0, WINDOW_NS)), most_slices)
        self._best: TraceWindow | None = None
        self._live: dict[int, Sequence] = {}
        self._turns: dict[int, list[tuple[int, str]]] = {}
        # Copies that end behind the start of the present window, by the order in which they began.
        self._copies: list[CopySlice] = []
        self._now_ns = 0

    def write(self, path: Path, device_name: str = "device") -> None:
        """Write the trace as Chrome JSON; requests that still live end where the run has got to.

        Raises:
            UsageError: the file cannot be written.
        """
        self._close(min(self._now_ns, self._window.end_ns))
        assert self._best is not None
        choice = "as asked" if self._asked else "the busiest 60 s by tokens"
        write_trace(path, self._best, device_name, choice)

    def on_arrived(self, event: Arrived) -> None:
        self._advance(event.now_ns)
        self._live[event.sequence.request_id] = event.sequence

    def on_preempted(self, event: Preempted) -> None:
        self._advance(event.now_ns)
        sequence = event.sequence
        self._turns[sequence.request_id] = [*self._turns_of(sequence), (event.now_ns, "preempted")]
        self._window.add_preemption(Preemption(event.now_ns, sequence.request_id, event.freed_blocks, event.reason))

    def on_swapped_out(self, event: SwappedOut) -> None:
        self._advance(event.now_ns)
        sequence = event.sequence
        self._turns[sequence.request_id] = [*self._turns_of(sequence), (event.now_ns, f"swapped to {event.tier.value}")]

    def on_restoring(self, event: Restoring) -> None:
        self._advance(event.now_ns)
        self._turns.setdefault(event.sequence.request_id, []).append((event.now_ns, "restoring"))

    def copy_begun(self, copy: CopyTicket) -> None:
        """A copy has got its place on a link, now or later."""
        if len(self._copies) == self._most_slices:
            self._window.leave_out()
            return
        times_ns = quanta_to_ns(copy.start_quanta), quanta_to_ns(copy.end_quanta)
        self._copies.append(CopySlice(*times_ns, copy.kind.value, copy.request_id, copy.num_bytes, copy.error))

    def on_resumed(self, event: Resumed) -> None:
        self._advance(event.now_ns)
        self._turns.setdefault(event.sequence.request_id, []).append((event.now_ns, "re-prefill"))

    def on_finished(self, event: Finished) -> None:
        self._advance(event.now_ns)
        sequence = self._live.pop(event.sequence.request_id, None)
        if sequence is not None:
            if event.now_ns > self._window.start_ns:
                self._window.add_request(self._span(sequence, event.now_ns, event.reason.value))
            self._turns.pop(sequence.request_id, None)

    def on_step_done(self, event: StepDone) -> None:
        pace, rows, window = event.pace, event.decode_rows, self._window
        start_ns, end_ns, count = quanta_to_ns(pace.start_quanta), quanta_to_ns(pace.last_quanta), pace.count
        prefill_tokens = sum([chunk.num_tokens for chunk in event.chunks]) if event.chunks else 0
        load = (event.context_tokens, event.used_blocks, len(event.batch.rows) + event.num_prefilling)
        queues = (event.num_waiting, event.num_parked, event.cached_blocks)
        step = (start_ns, end_ns, rows, prefill_tokens, count, *load, *queues)
        self._now_ns = end_ns
        if window.start_ns <= start_ns and end_ns <= window.end_ns:
            window.tokens += rows * count + prefill_tokens
            window.add_step(step)
            return
        self._advance(start_ns + 1)
        self._add_part(step, pace)
        while end_ns > self._window.end_ns and not self._asked:
            # Windows in which no iteration ends have no tokens and are passed over.
            done = pace.completed_by(ns_to_quanta(self._window.end_ns))
            next_end_ns = quanta_to_ns(pace.end_quanta(done + 1)) if done < count else end_ns
            self._advance(max(self._window.end_ns + 1, next_end_ns))
            self._add_part(step, pace)

    def _add_part(self, step: tuple[int, ...], pace: Pace) -> None:
        """Add a step that may reach over an edge of the present window."""
        window = self._window
        start_ns, end_ns, rows, prefill_tokens, *_ = step
        if end_ns <= window.start_ns or start_ns >= window.end_ns:
            return
        done = pace.completed_by(ns_to_quanta(window.end_ns)) - pace.completed_by(ns_to_quanta(window.start_ns))
        window.tokens += rows * done + (prefill_tokens if end_ns <= window.end_ns else 0)
        window.add_step(step)

    def _span(self, sequence: Sequence, end_ns: int, ended: str) -> RequestSpan:
        turns = tuple(self._turns_of(sequence))
        stamps = (sequence.request.arrival_ns, sequence.admitted_ns, sequence.first_token_ns, end_ns)
        return RequestSpan(sequence.request_id, *stamps, ended, turns, sequence.num_cached_tokens)

    def _turns_of(self, sequence: Sequence) -> list[tuple[int, str]]:
        """Its phases since the first preemption, decoding again included."""
        turns = self._turns.get(sequence.request_id, [])
        again = turns and sequence.joined_ns > turns[-1][0]
        return [*turns, (sequence.joined_ns, "decode")] if again else turns

    def _advance(self, now_ns: int) -> None:
        """Make the window that holds `now_ns` the present one; after a window asked for comes an empty one."""
        self._now_ns = max(self._now_ns, now_ns)
        if now_ns <= self._window.end_ns:
            return
        self._close(self._window.end_ns)
        start_ns = FOREVER_NS if self._asked else (now_ns - 1) // WINDOW_NS * WINDOW_NS
        end_ns = FOREVER_NS if self._asked else start_ns + WINDOW_NS
        self._window = TraceWindow(start_ns, end_ns, self._most_slices)

    def _close(self, end_ns: int) -> None:
        """Keep the present window, with the requests that live at its end, if it is the best so far."""
        copies, self._copies = self._copies, [copy for copy in self._copies if copy.end_ns > self._window.end_ns]
        if self._best is None or self._window.tokens > self._best.tokens:
            for sequence in islice(self._live.values(), self._most_slices):
                self._window.add_request(self._span(sequence, end_ns, ""))
            for copy in copies:
                self._window.add_copy(copy)
            self._best = self._window
