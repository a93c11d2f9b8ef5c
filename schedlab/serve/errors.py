"""Errors in the shape that OpenAI's clients read."""

from __future__ import annotations

import json
from collections.abc import Mapping

_TYPES = {
    400: "BadRequestError",
    401: "AuthenticationError",
    404: "NotFoundError",
    405: "MethodNotAllowedError",
    408: "RequestTimeoutError",
    409: "ConflictError",
    413: "RequestTooLargeError",
    500: "InternalServerError",
    503: "ServiceUnavailableError",
}


class ApiError(Exception):
    """What a client is told instead of an answer; `param` is the field that was wrong."""

    def __init__(
        self, status: int, message: str, param: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.headers = dict(headers or {})

    def body(self) -> bytes:
        """The JSON document."""
        kind = _TYPES.get(self.status, "APIError")
        error = {"message": self.message, "type": kind, "param": self.param, "code": self.status}
        return json.dumps({"error": error}).encode()


def bad(param: str | None, message: str) -> ApiError:
    """The request is wrong in a field."""
    return ApiError(400, message, param)


def overloaded(message: str, retry_after_s: int = 1) -> ApiError:
    """Not now; the client may come again."""
    return ApiError(503, message, headers={"Retry-After": str(retry_after_s)})
