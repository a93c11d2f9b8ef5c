"""The bytes of a trace: a file, a `.gz` (known by its first two bytes), or standard input kept in a temporary file."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, cast

from schedlab.errors import UsageError

GZIP_MAGIC = b"\x1f\x8b"


class Source:
    """A file that can be read again and again. `name` is what messages call it."""

    def __init__(self, path: Path, name: str | None = None, keep_open: IO[bytes] | None = None) -> None:
        self.path = path
        self.name = name or str(path)
        self._keep_open = keep_open
        self._identity: tuple[int, ...] | None = None

    @classmethod
    def from_stdin(cls) -> Source:
        """Standard input, copied once so that it can be read twice."""
        if sys.stdin is None or sys.stdin.isatty():
            state = "closed" if sys.stdin is None else "a terminal"
            raise UsageError(f"stdin: standard input is {state}; pipe a trace into it, or name a file")
        spool = tempfile.NamedTemporaryFile(prefix="schedlab-stdin-")  # noqa: SIM115 - lives as long as the source
        shutil.copyfileobj(sys.stdin.buffer, spool)
        spool.flush()
        return cls(Path(spool.name), "stdin", cast("IO[bytes]", spool))

    @contextmanager
    def text(self) -> Iterator[IO[str]]:
        """The lines of the file as UTF-8 text:

        decompressed, without a byte-order mark, any line end read as a newline.
        """
        try:
            with self.path.open("rb") as raw:
                self._refuse_change(raw)
                yield io.TextIOWrapper(_inflated(raw), encoding="utf-8-sig")
                self._refuse_change(raw)
        except UnicodeDecodeError as error:
            raise UsageError(
                f"{self.name}: not UTF-8 text ({error.reason} at byte {error.start}); convert it first"
            ) from error
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise UsageError(f"{self.name}: the gzip data is cut or damaged ({error}); fetch the file again") from error
        except OSError as error:
            raise UsageError(f"{self.name}: cannot be read ({error.strerror or error})") from error

    def sha256(self) -> str:
        """SHA-256 of the bytes as given (of the `.gz` itself where it is one), in hex."""
        try:
            with self.path.open("rb") as raw:
                self._refuse_change(raw)
                return hashlib.file_digest(raw, "sha256").hexdigest()
        except OSError as error:
            raise UsageError(f"{self.name}: cannot be read ({error.strerror or error})") from error

    def _refuse_change(self, raw: BinaryIO | io.BufferedReader) -> None:
        """Every pass must see the bytes of the first one, or its facts would not be those of the run."""
        status = os.fstat(raw.fileno())
        identity = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        self._identity = self._identity or identity
        if identity != self._identity:
            raise UsageError(f"{self.name}: the file changed while it was read; copy it first, and read the copy")


class Folder(Source):
    """A trace that lies in several files: `files` in the order of their names."""

    def __init__(self, path: Path, files: list[Path]) -> None:
        super().__init__(path)
        self.files = [Source(file) for file in files]

    def sha256(self) -> str:
        """SHA-256 over a line `name sha256` for each file, in the order of the names."""
        lines = (f"{file.path.name} {file.sha256()}\n" for file in self.files)
        return hashlib.sha256("".join(lines).encode()).hexdigest()


def _inflated(raw: BinaryIO | io.BufferedReader) -> IO[bytes]:
    magic = raw.read(2)
    raw.seek(0)
    return cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if magic == GZIP_MAGIC else cast("IO[bytes]", raw)
