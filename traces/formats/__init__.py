"""The known formats, in the order in which a first line is tried against them."""

from __future__ import annotations

from traces.file_trace import Format
from traces.formats import azure, own

FORMATS: tuple[Format, ...] = (own.JSONL, own.CSV, azure.FORMAT)
