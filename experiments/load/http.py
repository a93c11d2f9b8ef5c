"""As much HTTP/1.1 as streaming completions needs, on asyncio and nothing else: one request on one connection."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from schedlab.errors import UsageError

_LONGEST_LINE_BYTES = 1 << 22


class Failed(Exception):
    """The server did not give what was asked for."""


class Target(NamedTuple):
    """A server; `base` is the path before `/v1`."""

    host: str
    port: int
    tls: bool
    base: str
    api_key: str | None

    @classmethod
    def of(cls, url: str, api_key: str | None) -> Target:
        """From its URL, with `/v1` at the end or not.

        Raises UsageError for anything but http and https.
        """
        try:
            parts = urlsplit(url if "://" in url else f"http://{url}")
            tls, host = parts.scheme == "https", parts.hostname
            port = parts.port or (443 if tls else 80)
        except ValueError as error:
            raise UsageError(f"{url!r} is no URL: {error}") from None
        if parts.scheme not in ("http", "https") or not host or parts.query:
            raise UsageError(f"{url!r} is no URL of a server; give one like http://127.0.0.1:8000")
        return cls(host, port, tls, parts.path.rstrip("/").removesuffix("/v1"), api_key)

    def head(self, method: str, path: str, body: bytes) -> bytes:
        lines = [
            f"{method} {self.base}{path} HTTP/1.1",
            f"Host: {self.host}:{self.port}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            "Connection: close",
            *([f"Authorization: Bearer {self.api_key}"] if self.api_key else []),
        ]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def document(target: Target, path: str) -> Any:
    """The JSON of a GET.

    Raises Failed, OSError.
    """
    text = b"".join([line async for line in lines(target, "GET", path, b"")])
    try:
        return json.loads(text)
    except ValueError as error:
        raise Failed(f"{path}: the answer is no JSON: {error}") from None


async def events(target: Target, path: str, body: Any) -> AsyncIterator[bytes]:
    """The data of each event of a POST's stream, up to `[DONE]`.

    Raises Failed, OSError.
    """
    async for line in lines(target, "POST", path, json.dumps(body).encode()):
        if line.startswith(b"data:"):
            data = line[5:].strip()
            if data == b"[DONE]":
                return
            yield data
    raise Failed("the stream ended before [DONE]")


async def lines(target: Target, method: str, path: str, body: bytes) -> AsyncIterator[bytes]:
    """The lines of an answer's body."""
    reader, writer = await asyncio.open_connection(
        target.host, target.port, ssl=ssl.create_default_context() if target.tls else None, limit=_LONGEST_LINE_BYTES
    )
    try:
        writer.write(target.head(method, path, body) + body)
        await writer.drain()
        status, chunked = await _head_of(reader)
        source = _chunked_lines(reader) if chunked else _plain_lines(reader)
        if status >= 400:
            text = b"".join([line async for line in source])[:500].decode(errors="replace")
            raise Failed(f"HTTP {status}: {text}")
        async for line in source:
            yield line
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
        raise Failed(f"the connection ended within an answer: {error}") from None
    finally:
        writer.close()


async def _head_of(reader: asyncio.StreamReader) -> tuple[int, bool]:
    first = await reader.readline()
    parts = first.split(None, 2)
    if len(parts) < 2 or not parts[0].startswith(b"HTTP/") or not parts[1].isdigit():
        raise Failed(f"no HTTP answer: {first[:80]!r}")
    chunked = False
    while (line := await reader.readline()).strip():
        name, _, value = line.partition(b":")
        chunked |= name.lower() == b"transfer-encoding" and b"chunked" in value.lower()
    return int(parts[1]), chunked


async def _plain_lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while line := await reader.readline():
        yield line


async def _chunked_lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    rest = b""
    while size := int((await reader.readline()).split(b";")[0], 16):
        rest += await reader.readexactly(size)
        await reader.readexactly(2)
        *whole, rest = rest.split(b"\n")
        for line in whole:
            yield line
    if rest:
        yield rest
