"""Server CPU for each event of a stream: `python -m experiments.bench.serving` writes reports/gallery/serve.md.

The server is `schedlab serve --device sim` with steps of a fixed length, so that the rate of events is known and the
processor is not full. The client is this process: raw sockets that count events and parse nothing. What is measured
is the server process's own CPU time (user and system) over a window in which all streams run; it holds scheduling, the
modelled device, detokenising, encoding and HTTP.
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
from typing import Any, NamedTuple

from experiments.bench.machine import machine

GALLERY = Path("reports/gallery/serve.md")
BAR_US = 80
WINDOW_S = 10.0
_EVENT = b'"finish_reason"'
_MADE = re.compile(rb"^vllm:generation_tokens_total{[^}]*} (\S+)", re.MULTILINE)
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Load(NamedTuple):
    """So many open streams of one kind, and how long a step of the device lasts."""

    name: str
    streams: int
    step_ms: int
    path: str
    body: dict[str, Any]


_TEXT = {"prompt": "one two three"}
# None of the filler's words; the text may begin like the third at any time.
_STOPS = ["###", "User:", " the end of it", "qqq"]
_CHAT = {"messages": [{"role": "user", "content": "one two three"}]}
LOADS = (
    Load("completions", 256, 50, "/v1/completions", _TEXT),
    Load("chats", 256, 50, "/v1/chat/completions", _CHAT),
    Load("completions with 4 stop strings", 256, 50, "/v1/completions", {**_TEXT, "stop": _STOPS}),
    Load("completions", 1000, 200, "/v1/completions", _TEXT),
)


class Cost(NamedTuple):
    """CPU of the server over a window, what it made and what the client got in it."""

    cpu_s: float
    tokens: int
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


def measure(load: Load) -> Cost:
    """Start a server, open the streams, and measure one window."""
    flags = ["--device", "sim", "--port", "0", "--cost", "constant", "--cost-set", "per_row_ns=0"]
    flags += ["--cost-set", f"step_ns={load.step_ms * 1_000_000}", "--set", f"max_num_seqs={load.streams}"]
    command = [sys.executable, "-c", "from schedlab.cli import main; main()", "serve", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            found = re.search(r":(\d+) ", line)
            assert found is not None, f"no server: {line!r}"
            return asyncio.run(_window(server.pid, int(found[1]), load))
        finally:
            server.kill()


async def _window(pid: int, port: int, load: Load) -> Cost:
    body = {**load.body, "max_tokens": 8000, "ignore_eos": True, "stream": True}
    data = json.dumps(body).encode()
    request = f"POST {load.path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data
    loop = asyncio.get_running_loop()
    opening = (loop.create_connection(lambda: CountingClient(request), "127.0.0.1", port) for _ in range(load.streams))
    clients = [client for _, client in await asyncio.gather(*opening)]
    while min(client.num_events for client in clients) < 3:
        await asyncio.sleep(0.1)
    made = await _made(port)
    begun, cpu_s, events = perf_counter(), _cpu_s(pid), sum(client.num_events for client in clients)
    await asyncio.sleep(WINDOW_S)
    events = sum(client.num_events for client in clients) - events
    cpu_s, seconds = _cpu_s(pid) - cpu_s, perf_counter() - begun
    return Cost(cpu_s, await _made(port) - made, events, seconds)


async def _made(port: int) -> int:
    """Tokens that the server has made, as its metrics say."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
    text = await reader.read(-1)
    writer.close()
    found = _MADE.search(text)
    assert found is not None
    return int(float(found[1]))


def _cpu_s(pid: int) -> float:
    """User and system time of a process, from its line in /proc."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def lines() -> Iterator[str]:
    """The result as rows of a Markdown table."""
    yield "| streams | of what | tokens/s made | events/s got | server CPU per event | of the bar (80 us) |"
    yield "| ---: | --- | ---: | ---: | ---: | ---: |"
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 4096), hard), hard))
    for load in LOADS:
        cost = measure(load)
        made, got = cost.tokens / cost.seconds, cost.events / cost.seconds
        share = cost.us_per_event / BAR_US
        rates = f"{made:,.0f} | {got:,.0f} | {cost.us_per_event:.1f} us | {share:.0%}"
        yield f"| {load.streams:,} | {load.name} | {rates} |"


def document() -> Iterator[str]:
    """The whole page, line by line."""
    yield "# Cost of the server"
    yield ""
    yield f"`python -m experiments.bench.serving` on a shared machine: {machine()}."
    yield f"Steps of 50 ms (256 streams) and 200 ms (1,000 streams), a window of {WINDOW_S:g} s, one event a token."
    yield ""
    yield from lines()


if __name__ == "__main__":
    text = []
    for line in document():
        print(line, flush=True)
        text.append(line)
    GALLERY.write_text("\n".join(text) + "\n", encoding="utf-8")
