"""Values as they are typed on a command line: durations, whole numbers, lists of name=value."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal

from schedlab.errors import UsageError

UNITS_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9}
_DURATION = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)(ns|us|ms|s|m)", re.ASCII)


def duration_ns(flag: str, text: str) -> int:
    """Nanoseconds of a duration such as `2s`, `1.5ms` or `250us`; anything finer than a nanosecond is cut.

    Raises:
        UsageError: no unit, an unknown unit, or no number.
    """
    match = _DURATION.fullmatch(text)
    if match is None:
        raise UsageError(f"{flag}: {text!r} is no duration; give a number with a unit ({', '.join(UNITS_NS)}), like 2s")
    return int(Decimal(match[1]) * UNITS_NS[match[2]])


def pairs(flag: str, items: Iterable[str]) -> dict[str, str]:
    """`name=value` items as a mapping, in their order.

    Raises:
        UsageError: an item without a name or a value, or a name that stands twice.
    """
    found: dict[str, str] = {}
    for item in items:
        name, equals, value = (part.strip() for part in item.partition("="))
        if not (equals and name and value):
            raise UsageError(f"{flag}: {item!r} is not of the form name=value")
        if name in found:
            raise UsageError(f"{flag}: {name} is given twice ({found[name]} and {value}); give it once")
        found[name] = value
    return found
