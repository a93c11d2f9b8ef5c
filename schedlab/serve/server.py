"""uvicorn around the application: one line when it is ready, and an orderly end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any

import uvicorn

from schedlab.errors import UsageError
from schedlab.serve.app import make_app
from schedlab.serve.connection import Connection
from schedlab.serve.engine import SHUTTING_DOWN, Engine
from schedlab.serve.service import Service

_FLUSH_S = 2
# A step of a long prompt on a CPU takes that long.
_STEP_PATIENCE_S = 60
# Steps that end sooner are not worth a line.
_QUIET_S = 1
_ABANDONED_EXIT = 1
_BACKLOG = 2048
_MOST_FILES = 1 << 16
# uvloop takes one connection from a listening socket in each round of the event loop, and with a thousand streams a
# round may last as long as a step. So it listens to the same socket this often.
_ACCEPTS = 32


class DrainingServer(uvicorn.Server):
    """On the first SIGTERM or SIGINT it takes no more requests and lets those in flight end, for `drain_s` at most.

    Then it waits for the end of the step in flight, which nothing can interrupt. A second signal ends it at once, and
    the scheduler's thread may go on.
    """

    def __init__(self, config: uvicorn.Config, service: Service, ready_line: str, drain_s: float) -> None:
        super().__init__(config)
        self._service = service
        self._ready_line = ready_line
        self._drain_s = drain_s
        self._draining: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watching: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self._loop = asyncio.get_running_loop()
        self._watching = asyncio.ensure_future(self._end_with_engine())
        print(self._ready_line, flush=True)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._service.draining or self._loop is None:
            self.should_exit = self.force_exit = True
            return
        self._service.draining = True
        name, seconds = signal.Signals(sig).name, self._drain_s
        _say(f"{name}: no new requests; those in flight have {seconds:g} s")
        self._loop.call_soon_threadsafe(self._begin_draining)

    def _begin_draining(self) -> None:
        self._draining = asyncio.ensure_future(self._drain())

    async def _end_with_engine(self) -> None:
        """A server whose scheduler has stopped tells everybody so and ends: whoever watches it starts another."""
        await self._service.engine.died.wait()
        _say(f"error: {self._service.engine.dead}")
        self.should_exit = True

    async def _drain(self) -> None:
        engine = self._service.engine
        with suppress(TimeoutError):
            await asyncio.wait_for(engine.wait_idle(), self._drain_s)
        if not await engine.close(SHUTTING_DOWN, _QUIET_S):
            _say(f"waiting for the end of the step in flight, {_STEP_PATIENCE_S} s at most; a second signal ends all")
            await engine.close(SHUTTING_DOWN, _STEP_PATIENCE_S)
        self.should_exit = True


def _say(line: str) -> None:
    print(f"schedlab: {line}", file=sys.stderr, flush=True)


def leave_if_running(engine: Engine) -> None:
    """End the process here and now, with code 1, if the scheduler's thread goes on.

    That thread may be in native code, and an interpreter that ends meanwhile aborts the process.
    """
    if engine.is_running:
        if (error := sys.exception()) is not None:
            _say(f"error: {error}")
        _say("error: ended while the scheduler was at work; what the step in flight would have given is lost")
        sys.stdout.flush()
        os._exit(_ABANDONED_EXIT)


def bind(host: str, port: int) -> socket.socket:
    """A socket at that address.

    Raises UsageError when it is taken or is none of this machine's.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except (OSError, OverflowError) as error:
        raise UsageError(f"--host {host} --port {port}: {error}; choose another address") from None
    return bound


def allow_many_connections() -> None:
    """As many open files as this process may have: each stream is one, and shells often begin with 1,024.

    Where the system knows no such limit, or lets nobody change it, it stays as it is.
    """
    with suppress(ImportError, OSError, ValueError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def run_server(service: Service, bound: socket.socket, what: str, drain_s: float) -> bool:
    """Serve until a signal ends it; `what` is said in the line that tells where. False if the scheduler died.

    Its thread still runs if a step took too long or a second signal came: `leave_if_running`.
    """
    host, port = bound.getsockname()[:2]
    logging.basicConfig(level=logging.WARNING, format="schedlab: %(message)s")
    logging.getLogger("schedlab").setLevel(logging.INFO)
    allow_many_connections()
    config: Any = uvicorn.Config(
        make_app(service),
        http=partial(Connection, max_body_bytes=service.max_body_bytes),
        log_level="warning",
        access_log=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=_FLUSH_S,
        lifespan="on",
        ws="none",
        server_header=False,
    )
    address = f"[{host}]" if ":" in host else host
    line = f"schedlab: serving {service.limits.model} on http://{address}:{port} ({what})"
    sockets = [bound, *(bound.dup() for _ in range(_ACCEPTS - 1))]
    DrainingServer(config, service, line, drain_s).run(sockets=sockets)
    return not service.engine.dead
