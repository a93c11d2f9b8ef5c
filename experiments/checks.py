"""How much of a run is verified while it goes on. What is decided, and the event log, are the same either way."""

from __future__ import annotations

from enum import StrEnum

from backends.sim.device import SimDevice
from schedlab.core.scheduler import Scheduler
from schedlab.errors import UsageError


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


def device_kind(plain: type[SimDevice], check: Check | None) -> type[SimDevice]:
    """The class of device that runs as `plain` does and keeps a shadow KV if it is asked for."""
    if check is not Check.SHADOW:
        return plain
    from backends.sim.shadow_kv import ShadowDevice

    return ShadowDevice if plain is SimDevice else type(f"Shadow{plain.__name__}", (plain, ShadowDevice), {})


def attach(check: Check | None, core: Scheduler) -> None:
    """Follow `core` and its device, from before the first plan."""
    if check is None:
        return
    from schedlab.invariants import Checker

    Checker().attach(core)
    if check is Check.SHADOW:
        from backends.sim.shadow_kv import ShadowDevice

        assert isinstance(core.device, ShadowDevice)
        core.device.attach(core)
