"""From the bytes of a request to its fields, within bounds."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError

from schedlab.serve.errors import ApiError, bad
from schedlab.serve.service import Service

BodyT = TypeVar("BodyT", bound=BaseModel)
_BODY_S = 30.0
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_LONGEST_REASON = 300
_MOST_FIELDS = 10_000


async def read_body(request: Request, kind: type[BodyT], service: Service) -> BodyT:
    """The body, checked.

    Raises ApiError for a wrong key, or a body that is too large, too slow, no JSON or not of that kind.
    """
    service.authorise(request.headers.get("authorization", ""))
    try:
        data = await asyncio.wait_for(_bytes_of(request, service.max_body_bytes), _BODY_S)
    except TimeoutError:
        message = f"the body did not come within {_BODY_S:g} seconds"
        raise ApiError(408, message, headers={"Connection": "close"}) from None
    body = _fields_of(_document_of(data), kind)
    service.check_model(getattr(body, "model", None))
    return body


async def _bytes_of(request: Request, most: int) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            raise ApiError(413, f"the body is larger than {most} bytes", headers={"Connection": "close"})
    return bytes(body)


def _document_of(data: bytes) -> Any:
    """JSON as RFC 8259 has it: UTF-8, names once in an object, no halves of a surrogate pair."""
    try:
        text = data.decode()
        document = json.loads(text, object_pairs_hook=_unique)
        if _SURROGATE.search(text):
            json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise bad(None, "a text has half a surrogate pair, which is no character") from None
    except (ValueError, RecursionError) as error:
        raise bad(None, f"the body is no JSON: {str(error)[:_LONGEST_REASON]}") from None
    return document


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > _MOST_FIELDS:
        raise bad(None, f"an object has {len(pairs)} fields; give at most {_MOST_FIELDS}")
    fields = dict(pairs)
    if len(fields) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = counts.most_common(1)[0][0][:_LONGEST_REASON]
        raise bad(twice, f"the field {twice!r} is there more than once")
    return fields


def _fields_of(document: Any, kind: type[BodyT]) -> BodyT:
    if not isinstance(document, dict):
        raise bad(None, "the body must be a JSON object")
    try:
        body: BodyT = kind.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        what = first["msg"].removeprefix("Value error, ")
        raise bad(where.partition(".")[0] or None, f"{where or 'body'}: {what}") from None
    return body
