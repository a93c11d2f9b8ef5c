"""Typed errors. Every one says what was wrong, where, and what to do."""

from __future__ import annotations


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
    """A law of the run does not hold. The message names the law and the numbers."""


class Stalled(SchedlabError):
    """Nothing runs, nothing is due, and work is left. The message names the request that starves and why."""


class DeviceFault(SchedlabError):
    """The device failed a step or a copy. A failed step advanced nothing."""
