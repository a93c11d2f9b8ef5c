"""A server as a process of its own, and clients down to the bytes."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from openai import OpenAI

START_S, END_S = 60.0, 20.0
_MAIN = "from schedlab.cli import main; main()"
# A millisecond a step, whatever is in it.
QUICK = ("--cost", "constant", "--cost-set", "step_ns=1000000", "--cost-set", "per_row_ns=0")


class Server:
    """`schedlab serve` with these flags, at a free port."""

    def __init__(self, *flags: str, max_file_bytes: int | None = None) -> None:
        """`max_file_bytes`: a file that it writes can grow no larger, as on a full disk."""
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", _MAIN, "serve", "--port", "0", *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
            preexec_fn=None if max_file_bytes is None else partial(_limit_files, max_file_bytes),
            env=environment,
        )
        self._errors: list[str] = []
        assert self.process.stdout is not None and self.process.stderr is not None
        self._reader = threading.Thread(target=lambda: self._errors.extend(self.process.stderr or ()), daemon=True)
        self._reader.start()
        timer = threading.Timer(START_S, self.process.kill)
        timer.start()
        self.line = self.process.stdout.readline()
        timer.cancel()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", self.line)
        assert found, f"no server: {self.line!r} {self.errors()}"
        self.port = int(found[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self.http = httpx.Client(base_url=self.url, timeout=END_S)

    def errors(self) -> str:
        return "".join(self._errors)

    def openai(self, api_key: str = "none") -> OpenAI:
        return OpenAI(base_url=f"{self.url}/v1", api_key=api_key, max_retries=0, timeout=END_S)

    def post(self, path: str, **body: Any) -> httpx.Response:
        return self.http.post(path, json=body)

    def complete(self, **body: Any) -> dict[str, Any]:
        response = self.post("/v1/completions", **{"prompt": "hello", "ignore_eos": True, **body})
        assert response.status_code == 200, response.text
        return dict(response.json())

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples with these labels."""
        total = 0.0
        for line in self.http.get("/metrics").text.splitlines():
            head, _, value = line.rpartition(" ")
            if head.split("{")[0] == name and all(f'{key}="{one}"' in head for key, one in labels.items()):
                total += float(value)
        return total

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        return self.process.wait(END_S)

    def close(self) -> None:
        self.http.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join(END_S)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


def _limit_files(most_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))


class RawClient:
    """One request over a socket, read only when asked."""

    def __init__(self, port: int, path: str, body: dict[str, Any], receive_bytes: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(END_S)
        self.socket.connect(("127.0.0.1", port))
        data = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        self.socket.sendall(head.encode() + data)

    def read_until(self, mark: bytes) -> bytes:
        """Everything up to the first time that `mark` has come, or the end."""
        got = b""
        while mark not in got:
            part = self.socket.recv(65536)
            if not part:
                break
            got += part
        return got

    def close(self) -> None:
        self.socket.close()


def events(response: httpx.Response) -> Iterator[Any]:
    """The documents of a stream, and "[DONE]"."""
    for line in response.iter_lines():
        if line:
            assert line.startswith("data: "), line
            data = line[len("data: ") :]
            yield data if data == "[DONE]" else json.loads(data)


def wait_for(condition: Callable[[], bool], seconds: float = END_S) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.02)
