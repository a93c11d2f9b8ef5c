"""An answer as an ASGI response: it watches for the client's leaving, and cancels what nobody will read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping, Sequence
from typing import Any

from starlette.responses import Response

from schedlab.request import FinishReason
from schedlab.serve.choice import Choice, Delta
from schedlab.serve.engine import SHUTTING_DOWN, End, Engine
from schedlab.serve.errors import ApiError, overloaded
from schedlab.serve.replies import DONE, Reply

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Answer(Response):
    """Hands in the choices of one request at once, and sends what comes of them when it is called.

    Args:
        usage: tell the token counts behind the stream; `running_usage`: in every event.
    """

    def __init__(
        self,
        engine: Engine,
        choices: Sequence[Choice],
        reply: Reply,
        wake: asyncio.Event,
        *,
        stream: bool,
        usage: bool = False,
        running_usage: bool = False,
    ) -> None:
        super().__init__()
        self._engine = engine
        self._choices = choices
        self._reply = reply
        self._wake = wake
        self._stream, self._usage, self._running_usage = stream, usage, running_usage
        for choice in choices:
            engine.submit(choice.request, choice)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        sending = asyncio.ensure_future(self._send_stream(send) if self._stream else self._send_whole(send))
        leaving = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            sending.cancel()
            leaving.cancel()
            for choice in self._choices:
                self._engine.cancel(choice.request.request_id)

    async def _send_whole(self, send: Send) -> None:
        while not all(choice.ended for choice in self._choices):
            await self._next()
        taken = []
        for choice in self._choices:
            taken.append((choice, choice.take()))
            await asyncio.sleep(0)
        error = next((error for choice, _ in taken if (error := error_of(choice.ended)) is not None), None)
        if error is not None:
            await send_document(send, error.status, error.body(), error.headers)
        else:
            await send_document(send, 200, self._reply.whole(taken))

    async def _send_stream(self, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async for event in self._events():
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": DONE, "more_body": False})

    async def _events(self) -> AsyncIterator[bytes]:
        unopened = set(self._choices)
        while not all(choice.done for choice in self._choices):
            await self._next()
            for choice in self._choices:
                if not choice.has_news:
                    continue
                error = error_of(choice.ended)
                delta = choice.take()
                event = self._event(choice, delta, error)
                if choice in unopened and error is None:
                    unopened.remove(choice)
                    event = self._reply.opening(choice) + (event or b"")
                if event:
                    yield event
                if error is not None:
                    yield b"data: " + error.body() + b"\n\n"
                    return
        if self._usage:
            yield self._reply.usage_event()

    def _event(self, choice: Choice, delta: Delta, error: ApiError | None) -> bytes | None:
        if error is not None and not delta.text:
            return None
        return self._reply.event(choice, delta, with_usage=self._running_usage)

    async def _next(self) -> None:
        await self._wake.wait()
        self._wake.clear()


def error_of(end: End | None) -> ApiError | None:
    """What went wrong with an output, for its client."""
    if end is None or end.reason not in (FinishReason.ERROR, FinishReason.REFUSED):
        return None
    if end.reason is FinishReason.REFUSED:
        return ApiError(400, end.error)
    if end.error == SHUTTING_DOWN:
        return overloaded(end.error)
    return ApiError(500, end.error or "the request failed")


async def send_document(send: Send, status: int, body: bytes, headers: MutableMapping[str, str] | None = None) -> None:
    """A whole JSON answer."""
    named = {"content-type": "application/json", "content-length": str(len(body)), **(headers or {})}
    pairs = [(name.lower().encode(), value.encode()) for name, value in named.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
