"""Where schedulers are tried: a clock, and schedulers on devices that share it.

`schedlab` knows no device. A testbed is found by its name through the entry points `schedlab.testbeds`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points
from typing import Protocol

from schedlab.core.scheduler import Scheduler
from schedlab.device import CopyKind
from schedlab.errors import UsageError
from schedlab.request import Prompt
from schedlab.testing.world import World

GROUP = "schedlab.testbeds"
DEFAULT_TESTBED = "sim"


class Bench(Protocol):
    """One scheduler on one device of a testbed. Observers are added between its making and its start."""

    @property
    def core(self) -> Scheduler: ...

    @property
    def is_done(self) -> bool:
        """Has the scheduler shut down?"""
        ...

    def fail_step(self) -> None:
        """The step under way fails, or the next one; only of a breakable bench."""
        ...

    def fail_copy(self, kind: CopyKind) -> None:
        """The next copy on that link fails; only of a breakable bench."""
        ...

    def expect(self, request_id: int, output_tokens: int, following: Prompt | None = None) -> None:
        """The request's output will have so many tokens; `following` is its session's next prompt, if known."""
        ...

    def start(self) -> None:
        """Begin the scheduler's loop."""
        ...


class Testbed(Protocol):
    """A clock that all of its benches share. It stands still but in `run` and `step`."""

    def bench(self, world: World, *, leap: bool, breakable: bool = False) -> Bench:
        """The scheduler and the device of a world; its sessions are the caller's to deliver."""
        ...

    def now_ns(self) -> int: ...

    def call_at(self, at_ns: int, action: Callable[[], None]) -> None:
        """Do something at a time, or at this instant if it is past."""
        ...

    @property
    def is_idle(self) -> bool:
        """Is nothing due any more?"""
        ...

    def step(self) -> bool:
        """Let the next thing happen that is due; False if nothing is. Errors come out of it as out of `run`."""
        ...

    def run(self, until_ns: int | None = None) -> None:
        """Go on until nothing is due, or up to a time, what is due at it not included.

        Errors of schedulers, devices and actions come out of it.
        """
        ...


@cache
def find_testbed(name: str = DEFAULT_TESTBED) -> Callable[[], Testbed]:
    """What makes a testbed of that name.

    Raises:
        UsageError: none is installed under it, or it cannot be loaded.
    """
    installed = {point.name: point for point in entry_points(group=GROUP)}
    if name not in installed:
        raise UsageError(f"no testbed {name!r}; installed: {', '.join(installed) or 'none (install schedlab again)'}")
    try:
        found: Callable[[], Testbed] = installed[name].load()
    except Exception as error:
        raise UsageError(
            f"testbed {name!r}: {installed[name].value} cannot be loaded ({type(error).__name__}: {error}); mend it"
        ) from error
    return found
