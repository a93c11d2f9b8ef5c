"""`--record`: the traffic of a server as a trace that `replay` takes, written while it goes on."""

from __future__ import annotations

import io
from collections import OrderedDict
from pathlib import Path

from experiments.serve.lines_file import LinesFile
from schedlab.errors import UsageError
from schedlab.events import Arrived, Finished
from schedlab.request import Request
from schedlab.sequence import Sequence
from traces.mark import recorded_mark
from traces.record import TraceRecord
from traces.writers import write_rows

_Ended = tuple[Request, int]
# A trace's ids are whole numbers below 2^62; the chance that two of a million different blocks collide is 10^-7.
_ID_BITS = 62


class Recorder:
    """Observer: a row for each accepted request, in the order of arrival, as soon as it and all before it have ended.

    What clients asked for is kept: the prompt's length and the hashes of its blocks, never its text.
    """

    def __init__(self, path: Path, block_size: int, about: str) -> None:
        """`about` says of whom the traffic is, to whoever reads the trace.

        Raises UsageError for another ending than .jsonl, a file that exists, or a place that cannot be written.
        """
        if path.suffix != ".jsonl":
            raise UsageError(f"--record {path}: the name of the trace must end in .jsonl")
        self._block_size = block_size
        self._first_ns: int | None = None
        self._open: OrderedDict[int, _Ended | None] = OrderedDict()
        self._file: LinesFile[_Ended] = LinesFile(path, self._line, f"{recorded_mark(about)}\n".encode())

    def on_arrived(self, event: Arrived) -> None:
        if self._file.error:
            return
        self._open[event.sequence.request_id] = None

    def on_finished(self, event: Finished) -> None:
        sequence: Sequence = event.sequence
        if sequence.request_id not in self._open:
            return
        self._open[sequence.request_id] = (sequence.request, sequence.num_outputs)
        while self._open and (first := next(iter(self._open.values()))) is not None:
            self._open.popitem(last=False)
            self._file.put(first)

    def close(self) -> None:
        """Write what has ended, and the end of the file.

        Raises UsageError if something could not be written.
        """
        self._file.close()

    def _line(self, ended: _Ended) -> bytes:
        text = io.StringIO()
        write_rows([self._row(*ended)], text)
        return text.getvalue().encode()

    def _row(self, request: Request, output_tokens: int) -> TraceRecord:
        if self._first_ns is None:
            self._first_ns = request.arrival_ns
        keys = request.prompt.block_keys(self._block_size)
        return TraceRecord(
            max(request.arrival_ns - self._first_ns, 0),
            request.prompt.num_tokens,
            output_tokens,
            tenant=request.tenant,
            priority=request.priority,
            max_tokens=request.max_tokens,
            hash_ids=tuple(key >> (128 - _ID_BITS) for key in keys),
            hash_block_tokens=self._block_size,
        )
