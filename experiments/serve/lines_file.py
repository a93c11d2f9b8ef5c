"""A file of lines that grows while the server runs, and is whole lines however that ends."""

from __future__ import annotations

import errno
import logging
import os
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from schedlab.errors import UsageError

log = logging.getLogger("schedlab.serve")
_JOIN_S = 30.0
_Item = TypeVar("_Item")


class LinesFile(Generic[_Item]):
    """Takes items from any thread; one of its own makes lines of them and writes, so that nobody waits for the disk.

    When the disk is full the server goes on without.

    Attributes:
        error: why nothing more is written; empty while all is well.
    """

    def __init__(self, path: Path, line_of: Callable[[_Item], bytes], head: bytes = b"") -> None:
        """Create the file, with `head` as its beginning.

        Raises UsageError for one that exists, or a place that cannot be written.
        """
        try:
            # Unbuffered: what is in the file are whole lines, however the process ends.
            self._file = path.open("xb", buffering=0)
            self._file.write(head)
        except FileExistsError:
            raise UsageError(f"--record {path}: exists already; give another name") from None
        except OSError as error:
            raise UsageError(f"--record {path}: cannot be written ({error.strerror})") from None
        self.path = path
        self.error = ""
        self._line_of = line_of
        self._items: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="recorder", daemon=True)
        self._thread.start()

    def put(self, item: _Item) -> None:
        """Write this behind what has been put before."""
        if not self.error:
            self._items.put(item)

    def close(self) -> None:
        """Write what has been put, and the end of the file.

        Raises UsageError if something could not be written.
        """
        self._items.put(None)
        self._thread.join(_JOIN_S)
        if self.error:
            raise UsageError(f"--record {self.path}: {self.error}; the lines until then are there")

    def _write(self) -> None:
        try:
            with self._file:
                while (item := self._items.get()) is not None:
                    self._write_line(self._line_of(item))
        except OSError as error:
            self.error = error.strerror or str(error)
            log.error("--record %s: %s; no more is written there", self.path, self.error)

    def _write_line(self, line: bytes) -> None:
        """All of it or, as far as the disk lets us, nothing."""
        begin = self._file.tell()
        if (self._file.write(line) or 0) < len(line):
            self._file.truncate(begin)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
