"""The one way to open a trace, whatever it is."""

from __future__ import annotations

import os
from pathlib import Path

from schedlab.errors import UsageError
from traces.detect import Head, read_head
from traces.file_trace import FileTrace, Format
from traces.options import DEFAULTS, ReadOptions
from traces.source import Folder, Source
from traces.trace import Trace

_SHOWN_CHARS = 120


def open_trace(source: str | Path, *, options: ReadOptions = DEFAULTS) -> Trace:
    """Open a trace file, a folder, `-` for standard input, or a shipped model by its name.

    The format is told from the content, never from the file name. UsageError when there is no such thing, or when the
    content is of no known format. Rows are read when the trace is iterated, and refused then.
    """
    if str(source) == "-":
        return _open_file(Source.from_stdin(), options)
    path = Path(source)
    if path.is_file():
        return _open_file(Source(path), options)
    if path.is_dir():
        return _open_folder(path, options)
    from traces.models import model_names, open_model

    if str(source) in model_names():
        return open_model(str(source), options)
    if os.path.lexists(path):
        raise UsageError(f"{source}: neither a file nor a folder that can be read; pipe a stream into - instead")
    raise UsageError(f"{source}: no such trace file or folder; shipped models: {', '.join(model_names())}")


def _open_file(source: Source, options: ReadOptions) -> Trace:
    head = read_head(source)
    if head.json_with("schedlab_model"):
        from traces.models import open_model_file

        return open_model_file(source, options)
    return FileTrace(source, _format_of(source, head), options, head.mark)


def _format_of(source: Source, head: Head) -> Format:
    from traces.formats import FORMATS
    from traces.near import advice, other_file

    # Before the formats: what these files hold of requests has the fields of a trace.
    if other := other_file(head.names, source.name):
        raise UsageError(f"{source.name}: is no trace but {other}")
    for kind in FORMATS:
        if kind.matches(head):
            return kind
    if not head.first_line:
        raise UsageError(f"{source.name}: the file is empty")
    known = "; ".join(kind.title for kind in FORMATS)
    raise UsageError(
        f"{source.name}: not a known trace format. First line: {head.first_line[:_SHOWN_CHARS]!r}. "
        f"{advice(head.names)}. Known: {known}"
    )


def _open_folder(path: Path, options: ReadOptions) -> Trace:
    """ServeGen clients are told by their files' names (they have no header), sessions by the content of the first
    JSON file.
    """
    from traces.formats import servegen, weka

    chunks = servegen.chunk_files(path)
    if chunks:
        return FileTrace(Folder(path, chunks), servegen.FORMAT, options)
    documents = sorted(file for file in path.iterdir() if file.is_file() and ".json" in file.suffixes)
    if documents and weka.matches(read_head(Source(documents[0]))):
        return FileTrace(Folder(path, documents), weka.FORMAT, options)
    raise UsageError(
        f"{path}: a folder is read as {weka.FORMAT.title}, or as {servegen.FORMAT.title}; it holds neither. "
        "Name one file, or the folder that holds the files themselves"
    )
