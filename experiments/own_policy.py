"""A policy of the user's that fails in the middle of a run, told as what it is: his code, its line, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from linecache import getline
from pathlib import Path
from traceback import walk_tb
from types import FrameType, FunctionType

from schedlab.errors import SchedlabError, UsageError
from schedlab.policies.base import Policy
from schedlab.policies.registry import BUILT_IN

# What asks a policy, and what that keeps the answers in.
_SCHEDULER = ("schedlab", "sortedcontainers")

# The base classes of a policy that are not its own.
_NO_POLICY = ("schedlab", "builtins", "abc")


@contextmanager
def blamed(policy: Policy, name: str | None) -> Iterator[None]:
    """What a policy that is not built in raises, or what the scheduler makes of its answers, becomes a `UsageError`.

    `name` is what the caller calls it. Errors of anything else come out as they are.
    """
    try:
        yield
    except (SchedlabError, KeyboardInterrupt):
        raise
    except BaseException as error:
        told = None if type(policy) in BUILT_IN.values() else _told(policy, error)
        if told is None:
            raise
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        called = name or policy.name
        raise UsageError(
            f"policy {type(policy).__name__} {told}: {what}; mend it: schedlab check {called} finds the smallest "
            "example in which it fails"
        ) from error


def _told(policy: Policy, error: BaseException) -> str | None:
    """Who failed and where; None if it has nothing to do with the policy."""
    own = [kind for kind in type(policy).__mro__ if _package(kind.__module__) not in _NO_POLICY]
    files = {function.__code__.co_filename for kind in own for function in _functions(kind)}
    frames = list(walk_tb(error.__traceback__))
    for frame, line in reversed(frames):
        if frame.f_code.co_filename in files:
            return f"raises at {_place(frame, line)}"
    if isinstance(error, OSError | MemoryError) or _package_of(frames[-1][0]) not in _SCHEDULER:
        return None
    where = next((frame, line) for frame, line in reversed(frames) if _package_of(frame) == "schedlab")
    return f"gave an answer that the scheduler cannot use at {_place(*where)}"


def _place(frame: FrameType, line: int) -> str:
    code = frame.f_code
    text = getline(code.co_filename, line, frame.f_globals).strip()
    return f"{Path(code.co_filename).name}:{line} in {code.co_name} ({text})"


def _functions(kind: type) -> Iterator[FunctionType]:
    """Two files may have one module's name, so it is the functions that say where a class is from."""
    return (value for value in vars(kind).values() if isinstance(value, FunctionType))


def _package_of(frame: FrameType) -> str:
    return _package(str(frame.f_globals.get("__name__", "")))


def _package(module: str) -> str:
    return module.partition(".")[0]
