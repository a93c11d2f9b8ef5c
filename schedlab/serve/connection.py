"""One client's connection: uvicorn's, with a bound on every size and every wait that a client decides."""

from __future__ import annotations

from asyncio import TimerHandle, Transport
from collections import deque
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_HEAD_BYTES = 64 << 10
_HEAD_S = 10.0
_STALL_S = 60.0
# Chunks of one byte each take six.
_BYTES_PER_BODY_BYTE = 6


class Connection(HttpToolsProtocol):
    """Ends when a request's head is too long or too slow, when a body is past its bound, framing and trailers
    included, or when a client has read nothing for a minute of what waits for it.

    Args:
        max_body_bytes: of a request, chunks put together.
    """

    def __init__(self, *args: Any, max_body_bytes: int, **options: Any) -> None:
        super().__init__(*args, **options)
        self._most_bytes = _HEAD_BYTES + _BYTES_PER_BODY_BYTE * max_body_bytes
        self._message_bytes = 0
        self._is_in_head = True
        self._head_timer: TimerHandle | None = None
        self._stall_timer: TimerHandle | None = None
        self._open: deque[Any] = deque()

    def connection_made(self, transport: Transport) -> None:
        super().connection_made(transport)
        self._time_head()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._head_timer, self._stall_timer):
            if timer is not None:
                timer.cancel()
        # Whoever pipelines leaves several answers behind, and uvicorn tells only the last of them.
        for cycle in self._open:
            cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._message_bytes += len(data)
        super().data_received(data)
        if self._message_bytes > (_HEAD_BYTES if self._is_in_head else self._most_bytes):
            self.transport.abort()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._message_bytes, self._is_in_head = 0, True
        self._time_head()

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        super().on_headers_complete()
        self._open.append(self.cycle)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._message_bytes = 0

    def on_response_complete(self) -> None:
        self._open.popleft()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall_timer = self.loop.call_later(_STALL_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _time_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(_HEAD_S, self.transport.close)
