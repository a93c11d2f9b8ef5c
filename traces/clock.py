"""Wall-clock stamps of traces, to the nanosecond and without a float in between."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

from traces.fields import NS_PER_S

_SCALE = tuple(10 ** (9 - digits) for digits in range(10))


def wall_clock() -> Callable[[str], int]:
    """A parser of `YYYY-MM-DD?hh:mm:ss[.digits][Z|+hh:mm]` to nanoseconds since year 1; ValueError for anything else.

    The part up to the minute is the same for many rows and kept from the last call.
    """
    minute, minute_ns = "", 0

    def parse(stamp: str) -> int:
        nonlocal minute, minute_ns
        if stamp[:17] != minute:
            minute_ns = _minute_ns(stamp[:17])
            minute = stamp[:17]
        second, fraction = stamp[17:19], stamp[20:]
        if not second.isdecimal() or second > "60":
            raise ValueError
        now = minute_ns + int(second) * NS_PER_S
        if fraction.isdecimal() and stamp[19] == ".":
            digits = len(fraction)
            return now + (int(fraction) * _SCALE[digits] if digits < 10 else int(fraction[:9]))
        return now + _tail_ns(stamp[19:])

    return parse


def _minute_ns(text: str) -> int:
    hour, minute = text[11:13], text[14:16]
    if len(text) != 17 or text[10] not in " T" or text[13] != ":" or text[16] != ":":
        raise ValueError
    if not (hour.isdecimal() and minute.isdecimal() and hour < "24" and minute < "60"):
        raise ValueError
    return ((date.fromisoformat(text[:10]).toordinal() * 24 + int(hour)) * 60 + int(minute)) * 60 * NS_PER_S


def _tail_ns(tail: str) -> int:
    """Nanoseconds of a fraction with or without a zone, the zone taken off."""
    zone_at = next((at for at, char in enumerate(tail) if char in "Z+-"), len(tail))
    fraction, zone = tail[:zone_at], tail[zone_at:]
    nanoseconds = 0
    if fraction:
        if fraction[0] != "." or not fraction[1:].isdecimal():
            raise ValueError
        nanoseconds = int(fraction[1:10].ljust(9, "0"))
    if zone in ("", "Z"):
        return nanoseconds
    hours, minutes = zone[1:].split(":")
    offset_ns = (int(hours) * 60 + int(minutes)) * 60 * NS_PER_S
    return nanoseconds + (offset_ns if zone[0] == "-" else -offset_ns)
