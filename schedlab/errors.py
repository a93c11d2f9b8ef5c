"""Typed errors. Every one says what was wrong, where, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schedlab.law import Law


class SchedlabError(Exception):
    """Base of every error that this project raises on purpose."""


_LONGEST_MESSAGE = 1_500
_LONGEST_END = 300


class UsageError(SchedlabError):
    """Bad input from a caller: a flag, a file, a field. The command line prints it as one line and exits with 2.

    A value that it quotes may have any length; the message keeps its beginning and its end.
    """

    def __init__(self, message: str) -> None:
        if len(message) > _LONGEST_MESSAGE:
            message = f"{message[: _LONGEST_MESSAGE - _LONGEST_END]} [...] {message[-_LONGEST_END:]}"
        super().__init__(message)


class KvExhausted(SchedlabError):
    """The pool cannot hand out the blocks asked for; raised on the host before anything is launched."""

    def __init__(self, needed_blocks: int, free_blocks: int) -> None:
        super().__init__(f"{needed_blocks} KV blocks needed, {free_blocks} free")
        self.needed_blocks = needed_blocks
        self.free_blocks = free_blocks


class IllegalTransition(SchedlabError):
    """A sequence was asked to make a move that its state machine does not have: a defect of the scheduler."""


class InvariantViolation(SchedlabError):
    """A law of the run does not hold. The message names the law, what it demands, what was found, whom and when.

    Attributes:
        found: what was seen.
        law: the law; None where the caller has none.
        request_id: the request that it concerns, if it is one.
        now_ns: when it was noticed; None until someone who has the clock has said so.
    """

    def __init__(self, found: str, law: Law | None = None, request_id: int | None = None) -> None:
        super().__init__(found, law, request_id)
        self.found = found
        self.law = law
        self.request_id = request_id
        self.now_ns: int | None = None

    def __str__(self) -> str:
        law, about = self.law, []
        if self.request_id is not None:
            about.append(f"request {self.request_id}")
        if self.now_ns is not None:
            about.append(f"at {self.now_ns} ns")
        if law is not None and law.reference:
            about.append(law.reference)
        text = self.found if law is None else f"{law.name}: {law.sentence} Found: {self.found}"
        return f"{text} ({'; '.join(about)})" if about else text


class Stalled(SchedlabError):
    """Nothing runs, nothing is due, and work is left. The message names the request that starves and why."""


class DeviceFault(SchedlabError):
    """The device failed a step or a copy. A failed step advanced nothing."""


class DeviceLost(DeviceFault):
    """The device is gone for good: nothing that is begun on it will succeed."""
