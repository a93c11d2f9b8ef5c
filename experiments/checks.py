"""How much of a run is verified while it goes on. What is decided, and the event log, are the same either way."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from backends.sim.device import SimDevice
from schedlab.core.scheduler import Scheduler
from schedlab.errors import UsageError
from schedlab.law import When

if TYPE_CHECKING:
    from schedlab.invariants import Checker


class Check(StrEnum):
    """laws = every law of the run after every tick; shadow = those, and what lies in each block of memory."""

    LAWS = "laws"
    SHADOW = "shadow"


def check_of(value: bool | str | None) -> Check | None:
    """The check that a caller names; True means the laws.

    Raises:
        UsageError: there is no such check.
    """
    if isinstance(value, bool) or value is None:
        return Check.LAWS if value else None
    if value not in tuple(Check):
        raise UsageError(f"check is {value!r}; give {' or '.join(Check)}")
    return Check(value)


@dataclass(frozen=True, slots=True)
class Held:
    """What was verified, if the run has come to its end without a word."""

    check: Check
    checker: Checker

    def facts(self) -> dict[str, int]:
        """The laws that were looked at, and after how many ticks."""
        from schedlab.invariants import laws

        num_laws = sum(law.when is not When.SHADOW or self.check is Check.SHADOW for law in laws())
        return {"checked_laws": num_laws, "checked_ticks": self.checker.book.num_ticks}


def device_kind(plain: type[SimDevice], check: Check | None) -> type[SimDevice]:
    """The class of device that runs as `plain` does and keeps a shadow KV if it is asked for."""
    if check is not Check.SHADOW:
        return plain
    from backends.sim.shadow_kv import ShadowDevice

    return ShadowDevice if plain is SimDevice else type(f"Shadow{plain.__name__}", (plain, ShadowDevice), {})


def attach(check: Check | None, core: Scheduler) -> Held | None:
    """Follow `core` and its device, from before the first plan; what is returned says in the end what was verified."""
    if check is None:
        return None
    from schedlab.invariants import Checker

    checker = Checker()
    checker.attach(core)
    if check is Check.SHADOW:
        from backends.sim.shadow_kv import ShadowDevice

        assert isinstance(core.device, ShadowDevice)
        core.device.attach(core)
    return Held(check, checker)
