"""What a run raises, told as the law that it breaks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from linecache import getline
from pathlib import Path
from traceback import clear_frames, walk_tb
from types import FrameType
from typing import NamedTuple

from schedlab.errors import InvariantViolation, Stalled, UsageError
from schedlab.policies.base import Policy
from schedlab.testing.laws import CALLS_RETURN, MOST_CALL_S, POLICY_ANSWERS, SOMETHING_IS_DUE
from schedlab.testing.watchdog import NoReturn, watched

# Who asks policies, and what that is built on. All else that is not Python's own is a policy's.
_MACHINERY = {"schedlab", "backends", "simpy", "sortedcontainers"} | sys.stdlib_module_names


class _Place(NamedTuple):
    """Where a call stands."""

    frame: FrameType
    line: int

    def __str__(self) -> str:
        code = self.frame.f_code
        text = getline(code.co_filename, self.line, self.frame.f_globals).strip()
        return f"{Path(code.co_filename).name}:{self.line} in {code.co_name}: {text}"

    @property
    def call(self) -> str:
        """What was called."""
        code = self.frame.f_code
        return f"{code.co_qualname} ({Path(code.co_filename).name}:{code.co_firstlineno})"

    @property
    def is_of_a_policy(self) -> bool:
        module = str(self.frame.f_globals.get("__name__", ""))
        return module.partition(".")[0] not in _MACHINERY or isinstance(self.frame.f_locals.get("self"), Policy)


@contextmanager
def told(
    beat: Callable[[], int] = lambda: 0, most_call_s: float = MOST_CALL_S, *, may_refuse: bool = False
) -> Iterator[None]:
    """Errors of the scheduler, its policy and its device become broken laws; those of usage stay as they are.

    Args:
        beat: changes whenever the run gets further.
        most_call_s: processor time that may pass without that.
        may_refuse: the policy may say by a `UsageError` that it is not for this configuration.
    """
    try:
        with watched(beat, most_call_s):
            yield
    except InvariantViolation:
        raise
    except Stalled as stalled:
        raise SOMETHING_IS_DUE.broken(str(stalled)) from stalled
    except (NoReturn, MemoryError) as error:
        stuck = _how_it_is_stuck(error)
        # What the call has piled up goes now, and not when nobody has the error any more.
        clear_frames(error.__traceback__)
        raise stuck from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        is_of_usage = isinstance(error, UsageError)
        if is_of_usage and (may_refuse or not any(place.is_of_a_policy for place in _places(error))):
            raise
        raise POLICY_ANSWERS.broken(_told(error)) from error


def _places(error: BaseException) -> list[_Place]:
    """From the outermost call to where it was raised."""
    # A loop of the scheduler that a policy ends by StopIteration says so as a RuntimeError of its own.
    if isinstance(error.__cause__, StopIteration):
        error = error.__cause__
    return [_Place(frame, line) for frame, line in walk_tb(error.__traceback__)]


def _how_it_is_stuck(error: NoReturn | MemoryError) -> InvariantViolation:
    """Which call does not return; where it stood just then is a note, for that may differ from run to run."""
    places = _places(error)
    of_policy = [place for place in places if place.is_of_a_policy]
    call = of_policy[0].call if of_policy else f"the scheduler ({places[-1]})"
    what = "does not return" if isinstance(error, NoReturn) else "takes all memory that there is"
    violation = CALLS_RETURN.broken(f"{call} {what}")
    if of_policy:
        violation.add_note(f"it stood at {of_policy[-1]}")
    return violation


def _told(error: BaseException) -> str:
    """The error, where it was raised, and where in the policy that was, if it has to do with one."""
    places = _places(error)
    last = places[-1]
    in_policy = next((place for place in reversed(places) if place.is_of_a_policy), None)
    cause = error.__cause__ if isinstance(error.__cause__, StopIteration) else error
    text = f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__
    if in_policy is None:
        return f"the scheduler cannot use an answer: {text} ({last})"
    here = "" if in_policy is last else f", from {in_policy}"
    return f"the policy raises {text} ({last}{here})"
