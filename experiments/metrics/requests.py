"""One row per ended request: stamps, token counts and how it ended."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.metrics.tables import ROWS_PER_GROUP, as_numpy, write_parquet
from schedlab.events import Finished, Refused
from schedlab.request import FinishReason
from schedlab.sequence import NOT_YET, Sequence

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd
    import pyarrow as pa

STAMPS = ("admitted_ns", "first_token_ns", "finished_ns")
WORDS = ("finish_reason", "tenant", "session")
COLUMNS = (
    *("request_id", "arrival_ns", *STAMPS),
    *("prompt_tokens", "output_tokens", "cached_tokens", "preemptions", "swaps"),
    *WORDS,
)


class _Words:
    """Strings as small integers, numbered in the order in which they were first seen."""

    def __init__(self) -> None:
        self.codes: dict[str, int] = {}
        self.column = array("i")

    def append(self, word: str) -> None:
        self.column.append(self.codes.setdefault(word, len(self.codes)))


class RequestTable:
    """Observer: appends a row when a request ends or is refused. About 90 bytes a request."""

    def __init__(self) -> None:
        self.request_id = array("q")
        self.arrival_ns = array("q")
        self.admitted_ns = array("q")
        self.first_token_ns = array("q")
        self.last_token_ns = array("q")
        self.finished_ns = array("q")
        self.prompt_tokens = array("q")
        self.output_tokens = array("q")
        self.cached_tokens = array("q")
        self.preemptions = array("i")
        self.swaps = array("i")
        self.finish_reason = _Words()
        self.tenant = _Words()
        self.session = _Words()
        self.recomputed_tokens = 0
        self.cached_tokens_on_return = 0

    def __len__(self) -> int:
        return len(self.request_id)

    def on_refused(self, event: Refused) -> None:
        self._append(event.now_ns, event.sequence, FinishReason.REFUSED)

    def on_finished(self, event: Finished) -> None:
        if event.reason is not FinishReason.REFUSED:
            self._append(event.now_ns, event.sequence, event.reason)

    def _append(self, now_ns: int, sequence: Sequence, reason: FinishReason) -> None:
        request = sequence.request
        self.request_id.append(sequence.request_id)
        self.arrival_ns.append(request.arrival_ns)
        self.admitted_ns.append(sequence.admitted_ns)
        self.first_token_ns.append(sequence.first_token_ns)
        self.last_token_ns.append(max(sequence.last_token_ns, sequence.first_token_ns))
        self.finished_ns.append(now_ns)
        self.prompt_tokens.append(sequence.num_prompt_tokens)
        self.output_tokens.append(sequence.num_outputs)
        self.cached_tokens.append(sequence.num_cached_tokens)
        self.preemptions.append(sequence.num_preemptions)
        self.swaps.append(sequence.num_swaps)
        self.finish_reason.append(reason)
        self.tenant.append(request.tenant)
        self.session.append(request.session)
        self.recomputed_tokens += sequence.num_recomputed_tokens
        self.cached_tokens_on_return += sequence.num_cached_tokens_on_return

    def ended_by(self, *reasons: FinishReason) -> npt.NDArray[np.bool_]:
        """Which rows ended for one of `reasons`."""
        import numpy as np

        codes = [self.finish_reason.codes[reason] for reason in reasons if reason in self.finish_reason.codes]
        return np.isin(as_numpy(self.finish_reason.column), codes)

    def to_frame(self) -> pd.DataFrame:
        """Rows by (arrival_ns, request_id); absent stamps are `<NA>` in nullable Int64 columns."""
        import pandas as pd
        import pyarrow as pa

        table = pa.concat_tables([self._schema().empty_table(), *self._row_groups()])
        nullable = {pa.int64(): pd.Int64Dtype()}
        frame: pd.DataFrame = table.select(STAMPS).to_pandas(types_mapper=nullable.get)
        others = table.drop_columns(list(STAMPS)).to_pandas()
        together: pd.DataFrame = pd.concat([frame, others], axis="columns")[list(COLUMNS)]
        return together

    def write_parquet(self, path: Path) -> None:
        """Write the rows by (arrival_ns, request_id); absent stamps are null.

        Raises:
            UsageError: the file cannot be written.
        """
        write_parquet(path, self._schema(), self._row_groups())

    def _schema(self) -> pa.Schema:
        import pyarrow as pa

        return pa.schema([(name, pa.string() if name in WORDS else pa.int64()) for name in COLUMNS])

    def _row_groups(self) -> Iterator[pa.Table]:
        import numpy as np
        import pyarrow as pa

        order = np.lexsort((as_numpy(self.request_id), as_numpy(self.arrival_ns)))
        for begin in range(0, len(order), ROWS_PER_GROUP):
            rows = order[begin : begin + ROWS_PER_GROUP]
            yield pa.table([self._column(name, rows) for name in COLUMNS], schema=self._schema())

    def _column(self, name: str, rows: npt.NDArray[Any]) -> pa.Array:
        import pyarrow as pa

        column = getattr(self, name)
        if isinstance(column, _Words):
            words = pa.array(list(column.codes), type=pa.string())
            return words.take(pa.array(as_numpy(column.column)[rows]))
        values = as_numpy(column)[rows]
        return pa.array(values, type=pa.int64(), mask=values == NOT_YET if name in STAMPS else None)
