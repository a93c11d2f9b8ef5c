"""`--record`: the traffic of a server as a trace that `replay` takes, written while it goes on."""

from __future__ import annotations

import errno
import io
import logging
import os
import queue
import threading
from collections import OrderedDict
from pathlib import Path

from schedlab.errors import UsageError
from schedlab.events import Arrived, Finished
from schedlab.request import Request
from schedlab.sequence import Sequence
from traces.record import TraceRecord
from traces.writers import write_rows

log = logging.getLogger("schedlab.serve")
_Ended = tuple[Request, int]
_JOIN_S = 30.0
# A trace's ids are whole numbers below 2^62; the chance that two of a million different blocks collide is 10^-7.
_ID_BITS = 62


class Recorder:
    """Observer: a row for each accepted request, in the order of arrival, as soon as it and all before it have ended.

    What clients asked for is kept: the prompt's length and the hashes of its blocks, never its text. A thread of its
    own writes, so that the scheduler does not wait for the disk. When the disk is full the server goes on without.
    """

    def __init__(self, path: Path, block_size: int) -> None:
        """Raises UsageError for another ending than .jsonl, a file that exists, or a place that cannot be written."""
        if path.suffix != ".jsonl":
            raise UsageError(f"--record {path}: the name of the trace must end in .jsonl")
        try:
            # Unbuffered: what is in the file are whole lines, however the process ends.
            self._file = path.open("xb", buffering=0)
        except FileExistsError:
            raise UsageError(f"--record {path}: exists already; give another name") from None
        except OSError as error:
            raise UsageError(f"--record {path}: cannot be written ({error.strerror})") from None
        self.path = path
        self.error = ""
        self._block_size = block_size
        self._first_ns: int | None = None
        self._open: OrderedDict[int, _Ended | None] = OrderedDict()
        self._ended: queue.SimpleQueue[_Ended | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="recorder", daemon=True)
        self._thread.start()

    def on_arrived(self, event: Arrived) -> None:
        if self.error:
            return
        self._open[event.sequence.request_id] = None

    def on_finished(self, event: Finished) -> None:
        sequence: Sequence = event.sequence
        if sequence.request_id not in self._open:
            return
        self._open[sequence.request_id] = (sequence.request, sequence.num_outputs)
        while self._open and (first := next(iter(self._open.values()))) is not None:
            self._open.popitem(last=False)
            self._ended.put(first)

    def close(self) -> None:
        """Write what has ended, and the end of the file.

        Raises UsageError if something could not be written.
        """
        self._ended.put(None)
        self._thread.join(_JOIN_S)
        if self.error:
            raise UsageError(f"--record {self.path}: {self.error}; the rows until then are there")

    def _write(self) -> None:
        try:
            with self._file:
                while (ended := self._ended.get()) is not None:
                    self._write_line(self._line(*ended))
        except OSError as error:
            self.error = error.strerror or str(error)
            log.error("--record %s: %s; no more of the traffic is written", self.path, self.error)

    def _write_line(self, line: bytes) -> None:
        """All of it or, as far as the disk lets us, nothing."""
        begin = self._file.tell()
        if (self._file.write(line) or 0) < len(line):
            self._file.truncate(begin)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _line(self, request: Request, output_tokens: int) -> bytes:
        text = io.StringIO()
        write_rows([self._row(request, output_tokens)], text)
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
