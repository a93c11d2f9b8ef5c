"""What a client may make a connection wait for or hold, over a server in this process whose bounds are small."""

from __future__ import annotations

import tests.serve.needed  # isort: skip

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
import uvicorn

from schedlab.serve import connection

assert tests.serve.needed
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
BODY_BYTES = 1000


class App:
    """Answers at once, but streams for ever at `/stream`; counts whom it was told to have left."""

    def __init__(self) -> None:
        self.num_started = self.num_left = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.num_started += 1
        await send({"type": "http.response.start", "status": 200, "headers": []})
        if scope["path"] == "/stream":
            leaving = asyncio.ensure_future(self._left(receive))
            while not leaving.done():
                await send({"type": "http.response.body", "body": b"x" * 1000, "more_body": True})
                await asyncio.sleep(0)
        elif scope["method"] == "POST":
            while (await receive()).get("more_body"):
                pass
        await send({"type": "http.response.body", "body": b"done"})

    async def _left(self, receive: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.num_left += 1


def serve(test: Callable[[int, App], Awaitable[None]], patch: pytest.MonkeyPatch, **bounds: float) -> None:
    """Run `test` beside a server with these bounds."""
    for name, value in bounds.items():
        patch.setattr(connection, name, value)

    async def run() -> None:
        app = App()
        protocol: Any = partial(connection.Connection, max_body_bytes=BODY_BYTES)
        config = uvicorn.Config(app, http=protocol, log_level="critical", lifespan="off", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        listening = socket.create_server(("127.0.0.1", 0))
        running = asyncio.ensure_future(server._serve([listening]))
        while not server.started:
            await asyncio.sleep(0.005)
        try:
            await asyncio.wait_for(test(listening.getsockname()[1], app), 20)
        finally:
            server.should_exit = True
            await running

    asyncio.run(run())


async def exchange(port: int, *parts: bytes, pause_s: float = 0.0) -> bytes:
    """Send these parts and read until the server ends the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    got = b""
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause_s)
        while part := await reader.read(65536):
            got += part
    except ConnectionError:
        pass
    finally:
        writer.close()
    return got


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("parts", [(), (b"GET / HT",), (b"GET / HTTP/1.1\r\n", *[b"a: b\r\n"] * 30)])
def test_a_head_that_does_not_come_ends_the_connection(
    parts: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(port: int, app: App) -> None:
        assert await exchange(port, *parts, pause_s=0.02) == b"" and not app.num_started

    serve(test, monkeypatch, _HEAD_S=0.2)


@pytest.mark.parametrize("endless", [b"x: " + b"y" * 5000, b"x: y\r\n" * 1000])
def test_a_head_without_end_ends_the_connection(endless: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(port: int, app: App) -> None:
        assert await exchange(port, b"GET / HTTP/1.1\r\n", *[endless] * 1000) == b"" and not app.num_started
        assert b"done" in await exchange(port, GET.replace(b"1.1", b"1.0"))

    serve(test, monkeypatch)


@pytest.mark.parametrize("endless", [b"1;" + b"e" * 500 + b"\r\nx\r\n", b"0\r\n" + b"t: " + b"y" * 5000])
def test_a_body_whose_framing_has_no_end_ends_the_connection(endless: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(port: int, app: App) -> None:
        assert b"done" not in await exchange(port, CHUNKED, *[endless] * 1000)

    serve(test, monkeypatch)


def test_who_reads_nothing_is_cut_off_and_the_application_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(port: int, app: App) -> None:
        deaf = socket.create_connection(("127.0.0.1", port))
        deaf.sendall(GET.replace(b"/ ", b"/stream "))
        await until(lambda: app.num_left == 1)
        deaf.close()

    serve(test, monkeypatch, _STALL_S=0.3)


def test_who_reads_slowly_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(port: int, app: App) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 14)
        writer.write(GET.replace(b"/ ", b"/stream "))
        end = time.monotonic() + 1
        while time.monotonic() < end:
            assert await reader.read(1 << 20)
        assert not app.num_left
        writer.close()
        await until(lambda: app.num_left == 1)

    serve(test, monkeypatch, _STALL_S=0.3)


def test_who_leaves_several_answers_behind_leaves_the_first_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pipelined: the second waits for the first, and nobody waits for either."""

    async def test(port: int, app: App) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(GET.replace(b"/ ", b"/stream ") * 2)
        await reader.read(1)
        writer.transport.abort()
        await until(lambda: app.num_left == 1)
        assert app.num_started == 1

    serve(test, monkeypatch)


def test_pipelined_requests_are_answered_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(port: int, app: App) -> None:
        got = await exchange(port, GET * 3 + GET.replace(b"1.1", b"1.0"))
        assert got.count(b"done") == 4 == app.num_started

    serve(test, monkeypatch)
