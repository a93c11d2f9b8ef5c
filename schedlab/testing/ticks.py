"""A run tick by tick: who was where and held what, as rows of a table."""

from __future__ import annotations

from typing import NamedTuple

from schedlab.core.scheduler import Scheduler
from schedlab.events import Arrived, CacheReset, Finished, Preempted, Refused, StepDone
from schedlab.sequence import Sequence, State

_SHOWN_EVENTS = 6


class TickRow(NamedTuple):
    """What held after a tick.

    Attributes:
        happened: arrivals, ends, preemptions and the step of the tick, shortest first.
        holders: each live request: state, tokens computed of known, blocks.
    """

    number: int
    now_ns: int
    happened: str
    holders: str
    free_blocks: int


class Ticks:
    """Observer that keeps the last `most` rows."""

    def __init__(self, core: Scheduler, most: int = 200) -> None:
        self._core = core
        self._most = most
        self._happened: list[str] = []
        self._number = 0
        self.rows: list[TickRow] = []
        core.bus.add(self)
        end_tick = core.end_tick

        def call() -> None:
            try:
                end_tick()
            finally:
                self._note()

        setattr(core, "end_tick", call)  # noqa: B010 - no event tells of it

    def on_arrived(self, event: Arrived) -> None:
        request = event.sequence.request
        self._happened.append(f"{request.request_id} arrives ({request.prompt.num_tokens} tokens)")

    def on_refused(self, event: Refused) -> None:
        self._happened.append(f"{event.sequence.request_id} refused")

    def on_preempted(self, event: Preempted) -> None:
        self._happened.append(f"{event.sequence.request_id} preempted ({event.reason})")

    def on_finished(self, event: Finished) -> None:
        self._happened.append(f"{event.sequence.request_id} ends ({event.reason}, {event.sequence.num_outputs} out)")

    def on_cache_reset(self, event: CacheReset) -> None:
        self._happened.append("cache emptied" if event.done else "cache not emptied")

    def on_step_done(self, event: StepDone) -> None:
        chunks = [f"{chunk.sequence.request_id}[{chunk.start}+{chunk.num_tokens}]" for chunk in event.chunks]
        rows = f"{event.decode_rows} rows x {event.pace.count}" if event.decode_rows else ""
        self._happened.append("step " + ", ".join([*chunks, *([rows] if rows else [])]))

    def finish(self) -> list[TickRow]:
        """The rows, with one of its own for a tick that did not end."""
        if self._happened:
            self._note()
        return self.rows

    def _note(self) -> None:
        core = self._core
        self._number += 1
        happened, self._happened = self._happened, []
        if len(happened) > _SHOWN_EVENTS:
            happened[_SHOWN_EVENTS - 1 :] = [f"and {len(happened) - _SHOWN_EVENTS + 1} more"]
        holders = "; ".join(map(self._holder, core.sequences.values()))
        row = TickRow(self._number, core.device.now_ns(), "; ".join(happened), holders, core.pool.free_blocks)
        self.rows.append(row)
        del self.rows[: -self._most]

    def _holder(self, sequence: Sequence) -> str:
        is_row = sequence in self._core.batch
        computed = self._core.batch.length(sequence) if is_row else sequence.num_computed
        known = computed + 1 if is_row else sequence.num_known
        if sequence.state is State.PENDING:
            return f"{sequence.request_id} waits"
        blocks = ",".join(map(str, sequence.block_table)) or "no blocks"
        return f"{sequence.request_id} {sequence.state} {computed}/{known} [{blocks}]"
