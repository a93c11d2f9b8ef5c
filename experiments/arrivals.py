"""Brings a trace's requests to a scheduler at their times, without ever holding the trace."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from simpy.events import Event

from backends.sim.clock import SimClock
from experiments.request_maker import RequestMaker
from experiments.watch import refuse_end_of_time
from schedlab.events import Finished, Refused
from schedlab.inbox import Close, Delivery, Inbox, Submit
from schedlab.request import FinishReason
from traces.record import TraceRecord
from traces.transforms.derived import Block, blocks

# The one source of a replay; its deliveries of one instant are ordered by row.
SOURCE = 0
_ANSWERED = (FinishReason.STOP, FinishReason.LENGTH)
Turns = deque[tuple[int, TraceRecord]]


class OpenLoopSource:
    """Delivers each record at its stamp, all records of one stamp in one callback, then `Close`.

    A request's id is its row, counted from 0. Records must come in the order of their stamps.
    """

    def __init__(self, clock: SimClock, inbox: Inbox, maker: RequestMaker, records: Iterator[TraceRecord]) -> None:
        self._clock = clock
        self._inbox = inbox
        self._maker = maker
        self._records = records
        self._row = 0
        self._is_stopped = False
        self._next = next(records, None)
        clock.at_ns(self._next.arrival_ns if self._next else 0, self._deliver)

    def stop(self) -> None:
        """Send nothing more."""
        if not self._is_stopped and self._next is not None:
            self._inbox.deliver(Delivery(self._clock.now_ns(), SOURCE, self._row, Close()))
        self._is_stopped = True

    def _deliver(self, _: Event) -> None:
        if self._is_stopped:
            return
        record, stamp_ns = self._next, 0 if self._next is None else self._next.arrival_ns
        while record is not None and record.arrival_ns == stamp_ns:
            request = self._maker.make(self._row, record, stamp_ns)
            self._inbox.deliver(Delivery(stamp_ns, SOURCE, self._row, Submit(request)))
            self._row += 1
            record = next(self._records, None)
        self._next = record
        if record is None:
            self._inbox.deliver(Delivery(stamp_ns, SOURCE, self._row, Close()))
        else:
            self._clock.at_ns(record.arrival_ns, self._deliver)


class SessionSource:
    """Delivers the first turn of each session at its stamp, and a later one its think time after the end of the turn
    before it; `Close` when nothing is left. An observer of its scheduler.

    A session ends early with a turn that gets no answer (refused, failed, cancelled, timed out): whoever waited for it
    has nothing to go on from. Only the turns of live sessions are held.

    Attributes:
        unsent_turns: turns that were never sent since their session had ended.
    """

    def __init__(self, clock: SimClock, inbox: Inbox, maker: RequestMaker, records: Iterator[TraceRecord]) -> None:
        self._clock = clock
        self._inbox = inbox
        self._maker = maker
        self._blocks = blocks(records)
        self._rows = 0
        self._live_sessions = 0
        # The turns that follow the request with this id, each with its row.
        self._following: dict[int, Turns] = {}
        self._is_stopped = False
        self.unsent_turns = 0
        self._next: Block | None = next(self._blocks, None)
        clock.at_ns(self._next[0].arrival_ns if self._next else 0, self._start_sessions)

    def stop(self) -> None:
        """Send nothing more. Turns that wait for a live request or for their think time are not sent."""
        if not self._is_stopped and (self._next is not None or self._live_sessions):
            self._inbox.deliver(Delivery(self._clock.now_ns(), SOURCE, self._rows, Close()))
        self._is_stopped = True

    def on_finished(self, event: Finished) -> None:
        self._go_on(event.sequence.request_id, event.now_ns, answered=event.reason in _ANSWERED)

    def on_refused(self, event: Refused) -> None:
        self._go_on(event.sequence.request_id, event.now_ns, answered=False)

    def _start_sessions(self, _: Event) -> None:
        if self._is_stopped:
            return
        block, stamp_ns = self._next, 0 if self._next is None else self._next[0].arrival_ns
        while block is not None and block[0].arrival_ns == stamp_ns:
            self._live_sessions += 1
            self._send(deque(enumerate(block, self._rows)), stamp_ns)
            self._rows += len(block)
            block = next(self._blocks, None)
        self._next = block
        if block is not None:
            self._clock.at_ns(block[0].arrival_ns, self._start_sessions)
        self._close_if_done(stamp_ns)

    def _send(self, turns: Turns, now_ns: int) -> None:
        if self._is_stopped:
            self.unsent_turns += len(turns)
            return
        row, record = turns.popleft()
        self._following[row] = turns
        following = turns[0][1] if turns else None
        request = self._maker.make(row, record, now_ns, following)
        self._inbox.deliver(Delivery(now_ns, SOURCE, row, Submit(request)))

    def _go_on(self, row: int, now_ns: int, *, answered: bool) -> None:
        turns = self._following.pop(row)
        if turns and answered:
            due_ns = now_ns + turns[0][1].think_ns
            refuse_end_of_time(due_ns)
            self._clock.at_ns(due_ns, lambda _: self._send(turns, due_ns))
            return
        self.unsent_turns += len(turns)
        self._live_sessions -= 1
        self._close_if_done(now_ns)

    def _close_if_done(self, now_ns: int) -> None:
        if self._next is None and not self._live_sessions and not self._is_stopped:
            self._inbox.deliver(Delivery(now_ns, SOURCE, self._rows, Close()))
