"""A trace of the busiest minute, or of a window asked for, that ui.perfetto.dev opens."""

from __future__ import annotations

from math import isfinite
from pathlib import Path

from experiments.metrics.tokens import samples_later_token
from reports.perfetto_json import write_trace
from reports.perfetto_window import MOST_SLICES, PhaseSlice, Preemption, StepSlice, TraceWindow
from schedlab.device import FOREVER_NS
from schedlab.errors import UsageError
from schedlab.events import Admitted, Arrived, Finished, FirstToken, Preempted, Resumed, StepDone
from schedlab.pace import Pace, ns_to_quanta, quanta_to_ns

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
    if not (isfinite(end_s) and 0 <= start_s < end_s):
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
        self._live: dict[int, tuple[str, int]] = {}
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
        self._live[event.sequence.request_id] = ("queued", event.sequence.request.arrival_ns)

    def on_admitted(self, event: Admitted) -> None:
        self._enter(event.sequence.request_id, "prefill", event.now_ns)

    def on_first_token(self, event: FirstToken) -> None:
        self._enter(event.sequence.request_id, "decode", event.now_ns)

    def on_preempted(self, event: Preempted) -> None:
        request_id = event.sequence.request_id
        self._enter(request_id, "preempted", event.now_ns)
        self._window.add_preemption(Preemption(event.now_ns, request_id, event.freed_blocks, event.reason))

    def on_resumed(self, event: Resumed) -> None:
        self._enter(event.sequence.request_id, "re-prefill", event.now_ns)

    def on_finished(self, event: Finished) -> None:
        self._leave(event.sequence.request_id, event.now_ns, event.reason.value)

    def on_step_done(self, event: StepDone) -> None:
        pace = event.pace
        start_ns, end_ns = quanta_to_ns(pace.start_quanta), quanta_to_ns(pace.end_quanta(pace.count))
        prefill_tokens = sum([chunk.num_tokens for chunk in event.chunks])
        running = len(event.batch) + event.num_prefilling
        load = (event.context_tokens, event.used_blocks, running, event.num_waiting, event.num_parked)
        step = StepSlice(start_ns, end_ns, event.decode_rows, prefill_tokens, pace.count, *load)
        self._advance(start_ns + 1)
        self._add(step, pace)
        while end_ns > self._window.end_ns and not self._asked:
            self._advance(self._window.end_ns + 1)
            self._add(step, pace)
        self._now_ns = end_ns
        for chunk in event.chunks:
            if samples_later_token(chunk):
                self._enter(chunk.sequence.request_id, "decode", end_ns)

    def _add(self, step: StepSlice, pace: Pace) -> None:
        """Add what the present window has of a step."""
        window = self._window
        iterations = step.iterations
        if step.start_ns < window.start_ns or step.end_ns > window.end_ns:
            iterations = pace.completed_by(ns_to_quanta(window.end_ns)) - pace.completed_by(
                ns_to_quanta(window.start_ns)
            )
        window.tokens += step.rows * iterations
        if window.start_ns < step.end_ns <= window.end_ns:
            window.tokens += step.prefill_tokens
        window.add_step(step)

    def _enter(self, request_id: int, phase: str, now_ns: int) -> None:
        self._leave(request_id, now_ns)
        self._live[request_id] = (phase, now_ns)

    def _leave(self, request_id: int, now_ns: int, ended: str = "") -> None:
        self._advance(now_ns)
        self._now_ns = max(self._now_ns, now_ns)
        phase = self._live.pop(request_id, None)
        if phase is not None:
            self._window.add_phase(PhaseSlice(request_id, *phase, now_ns, ended))

    def _advance(self, now_ns: int) -> None:
        """Make the window that holds `now_ns` the present one; after a window asked for comes an empty one."""
        if now_ns <= self._window.end_ns:
            return
        self._close(self._window.end_ns)
        start_ns = FOREVER_NS if self._asked else (now_ns - 1) // WINDOW_NS * WINDOW_NS
        end_ns = FOREVER_NS if self._asked else start_ns + WINDOW_NS
        self._window = TraceWindow(start_ns, end_ns, self._most_slices)

    def _close(self, now_ns: int) -> None:
        """Keep the present window, with the phases that go on at `now_ns`, if it is the best so far."""
        if self._best is None or self._window.tokens > self._best.tokens:
            for request_id, (phase, since_ns) in self._live.items():
                self._window.add_phase(PhaseSlice(request_id, phase, since_ns, now_ns, ""))
            self._best = self._window
