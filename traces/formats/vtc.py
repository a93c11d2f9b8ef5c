"""Measured runs of the VTC artifact (Ying1123/VTC-artifact, Apache-2.0; Sheng et al., OSDI 2024).

One JSON line: config and result, whose responses[] hold adapter_dir (its last number is the client, the tenant here),
prompt_len, output_len and req_time (s). A response with first_token_latency -1 was refused by the rate limit of that
run and is dropped; num_abort does not count it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from schedlab.errors import UsageError
from traces.detect import Head
from traces.fields import NS_PER_S, Place, count, duration_ns, json_rows, required, stamp_ns
from traces.file_trace import Format
from traces.options import ReadOptions
from traces.record import TraceRecord
from traces.report import ReadReport
from traces.source import Source

_CLIENT = re.compile(r"\d+$")


def matches(head: Head) -> bool:
    """Told by a configuration with a result."""
    return head.json_with("config", "result")


def read(source: Source, options: ReadOptions, report: ReadReport) -> Iterator[TraceRecord]:
    """Records in file order; messages count the responses, from 1."""
    with source.text() as lines:
        runs = [_responses(run, source.name) for run in json_rows(lines, Place(source.name))]
    if len(runs) != 1:
        raise UsageError(f"{source.name}: {len(runs)} runs in one file; keep one line")
    place = Place(f"{source.name}: response")
    for place.line, row in enumerate(runs[0], 1):
        report.rows_read += 1
        if duration_ns(place, "first_token_latency", row.get("first_token_latency", 0), NS_PER_S) < 0:
            report.drop("refused in the recorded run (first_token_latency -1)")
            continue
        prompt = count(place, "prompt_len", required(place, row, "prompt_len"))
        output = count(place, "output_len", required(place, row, "output_len"))
        arrival = stamp_ns(place, "req_time", required(place, row, "req_time"), NS_PER_S, options.shift_negative)
        if not prompt:
            report.drop("empty prompt")
            continue
        report.rows_kept += 1
        yield TraceRecord(arrival, prompt, output, tenant=_client(place, row))


def _responses(run: dict[str, object], name: str) -> list[dict[str, object]]:
    result = run.get("result")
    responses = result.get("responses") if isinstance(result, dict) else None
    if not isinstance(responses, list) or not all(isinstance(row, dict) for row in responses):
        raise UsageError(f"{name}:1: result.responses: a list of responses is expected")
    return responses


def _client(place: Place, row: dict[str, object]) -> str:
    adapter = str(required(place, row, "adapter_dir"))
    found = _CLIENT.search(adapter)
    return (
        f"client-{found.group()}" if found else place.refuse("adapter_dir", f"{adapter!r} ends with no client number")
    )


FORMAT = Format("vtc", "VTC artifact results (JSON)", matches, read)
