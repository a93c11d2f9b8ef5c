"""What the endpoints share, and whom they let in."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from schedlab.serve.checks import Limits
from schedlab.serve.engine import SHUTTING_DOWN, Engine
from schedlab.serve.errors import ApiError, bad, overloaded
from schedlab.serve.metrics import ServerMetrics
from schedlab.serve.tokenizer import Tokenizer

_MOST_WARNINGS = 100
log = logging.getLogger("schedlab.serve")


@dataclass(slots=True)
class Service:
    """All that the endpoints share.

    Attributes:
        max_queue: requests that may wait beside those that have a seat.
        max_body_bytes: of a request.
        sampling: of requests that do not say it, by the names of their fields.
        draining: no new requests, the server is about to end.
    """

    engine: Engine
    tokenizer: Tokenizer
    limits: Limits
    random: Random
    version: str
    api_key: str | None
    max_queue: int
    max_body_bytes: int
    metrics: ServerMetrics
    sampling: Mapping[str, float]
    draining: bool = False
    created: int = 0
    warned: set[str] = field(default_factory=set)

    def admit(self, outputs: int) -> None:
        """Raises ApiError when there is no room for so many more."""
        if self.draining:
            raise overloaded(SHUTTING_DOWN, 5)
        if self.engine.dead:
            raise ApiError(503, self.engine.dead)
        most = self.limits.config.max_num_seqs + self.max_queue
        if self.engine.num_live + outputs > most:
            raise overloaded(
                f"{self.engine.num_live} requests are running or waiting, and at most {most} may; try again"
            )

    def check_model(self, name: str | None) -> None:
        """Raises ApiError for a model that is not served here."""
        if name is not None and name != self.limits.model:
            raise ApiError(404, f"The model `{name}` does not exist.", "model")

    def check_length(self, chars: int, param: str) -> None:
        """Raises ApiError for a text that is too long in whatever tokens it comes: nobody waits for counting them."""
        longest = self.limits.config.max_model_len
        if chars > longest * self.tokenizer.longest_token_bytes:
            raise bad(param, f"a text of {chars} characters; this server's context has {longest} tokens")

    def authorise(self, authorization: str) -> None:
        """Raises ApiError unless that header has the key, where the server wants one."""
        if self.api_key is None:
            return
        if not secrets.compare_digest(authorization.encode(), f"Bearer {self.api_key}".encode()):
            raise ApiError(401, "the API key is missing or wrong; send it as Authorization: Bearer KEY")

    def warn(self, names: Sequence[str]) -> None:
        """Say once of each field that nobody reads it."""
        for name in names:
            if name not in self.warned and len(self.warned) < _MOST_WARNINGS:
                self.warned.add(name)
                log.warning("field %r of a request is not known and was left unread", name[:80])
