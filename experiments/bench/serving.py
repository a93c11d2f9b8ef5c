"""Server CPU for each event of a token: `python -m experiments.bench.serving` measures 256 and 1,000 open streams.

The server is `schedlab serve --device sim` with steps of a fixed length, so that the rate of events is known and the
processor is not full. The client is this process: raw sockets that count events and parse nothing. What is measured
is the server process's own CPU time (user and system) from when all streams run to the end of the window, which
holds scheduling, the modelled device, detokenising, encoding and HTTP.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from experiments.bench.machine import machine

GALLERY = Path("reports/gallery/serve.md")
BAR_US = 80
WINDOW_S = 10.0
STEP_MS = 50
LOADS = (256, 1000)
_EVENT = b'"finish_reason"'
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Cost(NamedTuple):
    """What `streams` open streams cost: CPU of the server over the window, and what the client got in it."""

    streams: int
    cpu_s: float
    events: int
    seconds: float

    @property
    def us_per_event(self) -> float:
        return self.cpu_s / self.events * 1e6


class CountingClient(asyncio.Protocol):
    """One stream: counts its events."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self.num_events = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self.num_events += data.count(_EVENT)


def measure(streams: int) -> Cost:
    """Start a server, open the streams, and measure one window."""
    flags = ["--device", "sim", "--port", "0", "--cost", "constant", "--max-queue", str(streams)]
    flags += ["--cost-set", f"step_ns={STEP_MS * 1_000_000}", "--cost-set", "per_row_ns=0"]
    flags += ["--set", f"max_num_seqs={streams}"]
    command = [sys.executable, "-c", "from schedlab.cli import main; main()", "serve", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            found = re.search(r":(\d+) ", line)
            assert found is not None, f"no server: {line!r}"
            return asyncio.run(_window(server.pid, int(found[1]), streams))
        finally:
            server.kill()


async def _window(pid: int, port: int, streams: int) -> Cost:
    body = {"prompt": "one two three", "max_tokens": 8000, "ignore_eos": True, "stream": True}
    data = json.dumps(body).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n"
    request = head.encode() + data
    loop = asyncio.get_running_loop()
    clients = []
    for _ in range(streams):
        _, client = await loop.create_connection(lambda: CountingClient(request), "127.0.0.1", port)
        clients.append(client)
    while min(client.num_events for client in clients) < 2:
        await asyncio.sleep(0.1)
    begun, cpu_s, events = perf_counter(), _cpu_s(pid), sum(client.num_events for client in clients)
    await asyncio.sleep(WINDOW_S)
    events = sum(client.num_events for client in clients) - events
    return Cost(streams, _cpu_s(pid) - cpu_s, events, perf_counter() - begun)


def _cpu_s(pid: int) -> float:
    """User and system time of a process, from its line in /proc."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def lines() -> Iterator[str]:
    """The result as rows of a Markdown table."""
    yield "| open streams | events/s | server CPU per event | of the bar (80 us) |"
    yield "| ---: | ---: | ---: | ---: |"
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 4096), hard), hard))
    for streams in LOADS:
        cost = measure(streams)
        share = cost.us_per_event / BAR_US
        yield f"| {streams:,} | {cost.events / cost.seconds:,.0f} | {cost.us_per_event:.1f} us | {share:.0%} |"


if __name__ == "__main__":
    print(machine())
    for line in lines():
        print(line, flush=True)
