"""The run as rows of equal intervals: gauges at each interval's end, and what was done inside it."""

from __future__ import annotations

from array import array
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.metrics.growth import blocks_during
from experiments.metrics.tables import as_numpy, write_parquet
from experiments.metrics.tokens import samples_later_token
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
_PROMPT_TOKENS, _OUTPUT_TOKENS, _STEPS = range(3)


class Timeline:
    """Observer: one row per interval of `interval_ns`, counted from time 0; the interval doubles past `most_rows`.

    A boundary belongs to what ends there: a token that ends exactly on it counts in the row that it closes, and the
    gauges are those of the iteration that runs up to it. Between steps nothing runs, and the other gauges are what the
    last step left; all are 0 when no live request is left. Cost per event is constant; per interval passed too.
    """

    def __init__(self, interval_ns: int = NS_PER_S, most_rows: int = MOST_ROWS) -> None:
        """Start at time 0.

        Raises:
            UsageError: an interval that is not positive, or a number of rows that is not positive and even.
        """
        if interval_ns < 1 or most_rows < 2 or most_rows % 2:
            raise UsageError(
                f"timeline: interval {interval_ns} ns and {most_rows} rows; give 1 or more, and an even 2 or more"
            )
        self.interval_ns = interval_ns
        self._most_rows = most_rows
        # Gauges have a value per boundary passed; sums have one more, the open interval's.
        self._gauges = [array("q") for _ in GAUGES]
        self._sums = [array("q", [0]) for _ in SUMS]
        self._boundary_quanta = ns_to_quanta(interval_ns)
        self._last_end_row = 0
        self._live = 0
        self._waiting = 0
        self._parked = 0
        self._kv_blocks = 0

    def on_arrived(self, event: Arrived) -> None:
        self._idle_until(ns_to_quanta(event.now_ns))
        self._live += 1
        self._waiting += 1

    def on_admitted(self, event: Admitted) -> None:
        self._idle_until(ns_to_quanta(event.now_ns))
        self._waiting -= 1

    def on_finished(self, event: Finished) -> None:
        if event.reason is FinishReason.REFUSED:
            return
        self._idle_until(ns_to_quanta(event.now_ns))
        self._live -= 1
        if event.sequence.admitted_ns == NOT_YET:
            self._waiting -= 1

    def on_first_token(self, event: FirstToken) -> None:
        self._sums[_OUTPUT_TOKENS][self._last_end_row] += 1

    def on_step_done(self, event: StepDone) -> None:
        pace, rows = event.pace, event.decode_rows
        left = pace.count
        end = pace.end_quanta(left)
        if end >= self._boundary_quanta:
            left -= self._pass_boundaries(event, end)
        if left:
            # The last iteration ends in the open interval; else it ended on the boundary just passed.
            self._last_end_row = len(self._gauges[0])
            self._count(left, left * rows)
        for chunk in event.chunks:
            self._sums[_PROMPT_TOKENS][self._last_end_row] += chunk.num_tokens
            if samples_later_token(chunk):
                self._sums[_OUTPUT_TOKENS][self._last_end_row] += 1
        self._parked = event.num_parked
        self._kv_blocks = blocks_during(event, pace.count - 1)

    def _pass_boundaries(self, event: StepDone, end: int) -> int:
        """Close the intervals that end before or with the step; returns how many of its iterations are in them."""
        pace, rows = event.pace, event.decode_rows
        self._idle_until(pace.start_quanta)
        running = len(event.batch) + event.num_prefilling
        done = 0
        while self._boundary_quanta <= end:
            boundary = self._boundary_quanta
            covering = pace.first_at_or_after(boundary)
            blocks = blocks_during(event, covering - 1)
            passed = pace.completed_by(boundary) - done
            self._count(passed, passed * rows)
            done += passed
            self._last_end_row = len(self._gauges[0])
            self._close(1, (running, event.num_waiting, event.num_parked, blocks))
        return done

    def _count(self, steps: int, output_tokens: int) -> None:
        self._sums[_STEPS][-1] += steps
        self._sums[_OUTPUT_TOKENS][-1] += output_tokens

    def _idle_until(self, quanta: int) -> None:
        while self._boundary_quanta <= quanta:
            step = ns_to_quanta(self.interval_ns)
            passed = (quanta - self._boundary_quanta) // step + 1
            room = self._most_rows - len(self._gauges[0])
            self._close(min(passed, room), self._idle_gauges())

    def _idle_gauges(self) -> tuple[int, ...]:
        return (0, self._waiting, self._parked, self._kv_blocks) if self._live else (0, 0, 0, 0)

    def _close(self, count: int, values: tuple[int, ...]) -> None:
        """Append `count` equal boundaries, and double the interval if that fills the table."""
        for gauge, value in zip(self._gauges, values, strict=True):
            gauge.extend(array("q", [value]) * count)
        for column in self._sums:
            column.extend(array("q", [0]) * count)
        if len(self._gauges[0]) == self._most_rows:
            self._halve()
        self._boundary_quanta = ns_to_quanta((len(self._gauges[0]) + 1) * self.interval_ns)

    def _halve(self) -> None:
        """Merge rows pairwise: the later gauges, both sums. The number of closed rows is even, the open one is new."""
        self.interval_ns *= 2
        self._last_end_row //= 2
        self._gauges = [gauge[1::2] for gauge in self._gauges]
        self._sums = [array("q", [*map(add, column[:-1:2], column[1::2]), column[-1]]) for column in self._sums]

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

        open_rows = 1 if any(column[-1] for column in self._sums) else 0
        closed_rows = len(self._gauges[0])
        ends = np.arange(1, closed_rows + open_rows + 1, dtype=np.int64) * self.interval_ns
        gauges = [
            np.append(as_numpy(gauge), np.full(open_rows, value, dtype=np.int64))
            for gauge, value in zip(self._gauges, self._idle_gauges(), strict=True)
        ]
        sums = [as_numpy(column)[: closed_rows + open_rows] for column in self._sums]
        return pa.table(dict(zip(COLUMNS, [ends, *gauges, *sums], strict=True)))
