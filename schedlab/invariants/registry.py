"""Every law that there is."""

from __future__ import annotations

from schedlab.invariants import (
    audit,
    cached,
    chain,
    choices,
    contents,
    ends,
    events,
    giving_up,
    last,
    left,
    moment,
    owners,
    phases,
    pieces,
    room,
    sliding,
    steps,
    sums,
    swapped,
    track,
    ways,
    withheld,
)
from schedlab.law import Law
from schedlab.memory import laws as memory_laws

_MODULES = (
    memory_laws,
    moment,
    owners,
    sums,
    swapped,
    cached,
    audit,
    chain,
    events,
    track,
    steps,
    pieces,
    choices,
    ways,
    giving_up,
    room,
    withheld,
    sliding,
    ends,
    phases,
    last,
    left,
    contents,
)


def laws() -> tuple[Law, ...]:
    """All laws, those about one thing together."""
    return tuple(value for module in _MODULES for value in vars(module).values() if isinstance(value, Law))


def law_named(name: str) -> Law:
    """The law of that name.

    Raises:
        KeyError: there is none.
    """
    return {law.name: law for law in laws()}[name]
