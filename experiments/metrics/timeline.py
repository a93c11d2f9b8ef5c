"""The run as rows of equal intervals: gauges at each interval's end, and what was done inside it."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.metrics.growth import blocks_during
from experiments.metrics.tables import as_numpy, write_parquet
from experiments.metrics.tokens import samples_later_token
from experiments.metrics.usage import Usage
from schedlab.errors import UsageError
from schedlab.events import Admitted, Arrived, Finished, FirstToken, StepDone
from schedlab.pace import ns_to_quanta
from schedlab.request import FinishReason
from schedlab.sequence import NOT_YET

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

MOST_ROWS = 100_000
NS_PER_S = 1_000_000_000
GAUGES = ("running", "waiting", "parked", "kv_blocks")
SUMS = ("prompt_tokens", "output_tokens", "steps")
COLUMNS = ("t_ns", *GAUGES, *SUMS)
_OUTPUT_TOKENS = len(GAUGES) + SUMS.index("output_tokens")


class Timeline:
    """Observer: one row per interval of `interval_ns`, counted from time 0; the interval doubles past `most_rows`.

    A boundary belongs to what ends there: a token that ends exactly on it counts in the row that it closes, and the
    gauges are those of the iteration that runs up to it. Between steps nothing runs, and the other gauges are what the
    last step left; all are 0 when no live request is left. An event that passes no boundary costs a comparison.
    """

    def __init__(self, usage: Usage, interval_ns: int = NS_PER_S, most_rows: int = MOST_ROWS) -> None:
        """Start at time 0. `usage` must be added to the bus before this.

        Raises:
            UsageError: an interval that is not positive, or a number of rows that is not positive and even.
        """
        if interval_ns < 1 or most_rows < 2 or most_rows % 2:
            raise UsageError(
                f"timeline: interval {interval_ns} ns and {most_rows} rows; give 1 or more, and an even 2 or more"
            )
        self.interval_ns = interval_ns
        self._usage = usage
        self._most_rows = most_rows
        # One value per boundary passed; the sums are those of the whole run up to it.
        self._columns = [array("q") for _ in (*GAUGES, *SUMS)]
        self._boundary_ns = interval_ns
        self._boundary_quanta = ns_to_quanta(interval_ns)
        self._ended_on_boundary = False
        self._live = 0
        self._waiting = 0
        self._parked = 0
        self._kv_blocks = 0

    def on_arrived(self, event: Arrived) -> None:
        if event.now_ns >= self._boundary_ns:
            self._idle_until(event.now_ns)
        self._live += 1
        self._waiting += 1

    def on_admitted(self, event: Admitted) -> None:
        if event.now_ns >= self._boundary_ns:
            self._idle_until(event.now_ns)
        self._waiting -= 1

    def on_finished(self, event: Finished) -> None:
        if event.reason is FinishReason.REFUSED:
            return
        if event.now_ns >= self._boundary_ns:
            self._idle_until(event.now_ns)
        self._live -= 1
        if event.sequence.admitted_ns == NOT_YET:
            self._waiting -= 1

    def on_first_token(self, event: FirstToken) -> None:
        if self._ended_on_boundary:
            self._columns[_OUTPUT_TOKENS][-1] += 1

    def on_step_done(self, event: StepDone) -> None:
        self._ended_on_boundary = False
        if self._usage.last_quanta >= self._boundary_quanta:
            self._pass_boundaries(event)
        self._parked = event.num_parked
        self._kv_blocks = self._usage.last_blocks

    def _pass_boundaries(self, event: StepDone) -> None:
        """Close the intervals that end before or with the step. `usage` has counted the whole step already."""
        pace, rows, end = event.pace, event.decode_rows, self._usage.last_quanta
        at_end = self._sums()
        later_tokens = sum([samples_later_token(chunk) for chunk in event.chunks])
        prompt_tokens = at_end[0] - sum([chunk.num_tokens for chunk in event.chunks])
        output_tokens = at_end[1] - later_tokens - rows * pace.count
        steps = at_end[2] - pace.count
        self._idle(pace.start_quanta, (prompt_tokens, output_tokens, steps))
        running = len(event.batch) + event.num_prefilling
        while self._boundary_quanta <= end:
            covering = pace.first_at_or_after(self._boundary_quanta)
            done = pace.completed_by(self._boundary_quanta)
            self._ended_on_boundary = self._boundary_quanta == end
            sums = (prompt_tokens, output_tokens + rows * done, steps + done)
            gauges = (running, event.num_waiting, event.num_parked, blocks_during(event, covering - 1))
            inside = self._passed(pace.end_quanta(covering) - 1)
            self._close(max(inside, 1), (*gauges, *(at_end if self._ended_on_boundary else sums)))

    def _sums(self) -> tuple[int, int, int]:
        usage = self._usage
        return usage.computed_prefill_tokens, usage.output_tokens, usage.steps

    def _idle_gauges(self) -> tuple[int, int, int, int]:
        return (0, self._waiting, self._parked, self._kv_blocks) if self._live else (0, 0, 0, 0)

    def _idle_until(self, now_ns: int) -> None:
        self._idle(ns_to_quanta(now_ns), self._sums())

    def _idle(self, until_quanta: int, sums: tuple[int, int, int]) -> None:
        while self._boundary_quanta <= until_quanta:
            self._close(self._passed(until_quanta), (*self._idle_gauges(), *sums))

    def _passed(self, until_quanta: int) -> int:
        """Boundaries up to that time, as many of them as there is room for."""
        passed = (until_quanta - self._boundary_quanta) // ns_to_quanta(self.interval_ns) + 1
        return min(passed, self._most_rows - len(self._columns[0]))

    def _close(self, count: int, values: tuple[int, ...]) -> None:
        """Append `count` equal rows. A full table keeps every other one: each interval is then twice as long."""
        for column, value in zip(self._columns, values, strict=True):
            column.extend(array("q", [value]) * count)
        if len(self._columns[0]) == self._most_rows:
            self._columns = [column[1::2] for column in self._columns]
            self.interval_ns *= 2
        self._boundary_ns = (len(self._columns[0]) + 1) * self.interval_ns
        self._boundary_quanta = ns_to_quanta(self._boundary_ns)

    def to_frame(self) -> pd.DataFrame:
        """The rows as a pandas frame, in time order."""
        frame: pd.DataFrame = self._to_table().to_pandas()
        return frame

    def write_parquet(self, path: Path) -> None:
        """Write the rows in time order.

        Raises:
            UsageError: the file cannot be written.
        """
        table = self._to_table()
        write_parquet(path, table.schema, [table])

    def _to_table(self) -> pa.Table:
        """All closed intervals, and the open one with the present gauges if anything was done in it."""
        import numpy as np
        import pyarrow as pa

        rows = np.array([as_numpy(column) for column in self._columns], dtype=np.int64)
        sums = np.array([self._sums()], dtype=np.int64).T
        before = rows[len(GAUGES) :, -1:] if rows.shape[1] else 0
        if np.any(sums != before):
            rows = np.hstack([rows, np.vstack([np.array([self._idle_gauges()], dtype=np.int64).T, sums])])
        rows[len(GAUGES) :] = np.diff(rows[len(GAUGES) :], axis=1, prepend=0)
        ends = np.arange(1, rows.shape[1] + 1, dtype=np.int64) * self.interval_ns
        return pa.table(dict(zip(COLUMNS, [ends, *rows], strict=True)))
