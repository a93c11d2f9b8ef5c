"""What is tried on a scheduler, and how what it reveals is told."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NamedTuple

import pytest

from schedlab.errors import InvariantViolation
from tests.mutants.mutant import StaleMutant

# Processor seconds after which an attack is broken off; the longest takes a fiftieth of it.
MOST_SECONDS = 5.0


class Attack(NamedTuple):
    """A run that raises when it finds something wrong; always the same run."""

    name: str
    run: Callable[[], None]


class NotAlike(Exception):
    """Two runs that must be alike differ."""


class NotLive(Exception):
    """Somebody waits for ever."""


class Hangs(BaseException):
    """An attack does not come back, and no bound has noticed.

    No `Exception`, or Hypothesis would take it for the failure of one example and try that again, now without a clock.
    """


class Kill(NamedTuple):
    """Which attack found what."""

    attack: str
    law: str
    numbers: str


def first_kill(attacks: Iterable[Attack]) -> Kill | None:
    """Try the attacks in order; what the first that succeeds found, None if all failed.

    Raises:
        StaleMutant: the program names something that is not there. That is no mistake of the kind sought here.
    """
    for attack in attacks:
        try:
            with _broken_off():
                attack.run()
        except NameError as error:
            raise StaleMutant(f"the changed text names what is not there: {error}") from error
        except (Exception, Hangs, pytest.fail.Exception) as error:
            law, numbers = _told(error)
            return Kill(attack.name, law, numbers)
    return None


def _told(error: BaseException) -> tuple[str, str]:
    """The law that an error is about, and its numbers."""
    numbers = (str(error).splitlines() or [""])[0]
    if isinstance(error, InvariantViolation):
        return error.law.name if error.law else "a_law", error.found
    if isinstance(error, NotAlike):
        return "leap_equals_step", numbers
    if isinstance(error, NotLive):
        return "everybody_ends", numbers
    if isinstance(error, AssertionError | pytest.fail.Exception):
        return "as_expected", numbers
    return f"no_error ({type(error).__name__})", numbers


@contextmanager
def _broken_off() -> Iterator[None]:
    def hang(_: int, frame: FrameType | None) -> None:
        raise Hangs(f"{MOST_SECONDS} s, in {frame.f_code.co_qualname if frame else 'nothing'}")

    former = signal.signal(signal.SIGVTALRM, hang)
    signal.setitimer(signal.ITIMER_VIRTUAL, MOST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, former)
