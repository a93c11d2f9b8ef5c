"""How numbers are written for people: durations, shares, counts; a dash for what is absent."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard

DASH = "—"
LONGEST_TEXT = 500


def clean(value: object) -> str:
    """`value` as one bounded line of printable text.

    Control, bidirectional and undecodable characters become U+FFFD; what exceeds `LONGEST_TEXT` is cut.
    """
    if isinstance(value, bool):
        return str(value).lower()
    text = " ".join(str(value).split())
    if len(text) > LONGEST_TEXT:
        text = f"{text[:LONGEST_TEXT]}…"
    return "".join(char if char.isprintable() else "�" for char in text)


def is_number(value: object) -> TypeGuard[float]:
    """True for a finite int or float that is not a bool."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def number(value: Any) -> str:
    """A count or rate with thousands separators; fractions keep three significant digits."""
    if not is_number(value):
        return DASH
    size = abs(value)
    if isinstance(value, int) or size >= 100 or value == 0:
        return f"{value:,.0f}"
    if size < 0.01:
        return f"{value:.2g}"
    return f"{value:.{2 - max(-1, math.floor(math.log10(size)))}f}"


def rate(per_s: Any, what: str) -> str:
    """A rate such as `5.38 requests/s`; a slow one in the hour or the day that leaves at least a hundredth."""
    if is_number(per_s) and 0 < per_s < 0.01:
        unit, size = ("h", 3_600) if per_s * 3_600 >= 0.01 else ("d", 86_400)
        return f"{number(per_s * size)} {what}/{unit}"
    return f"{number(per_s)} {what}/s"


def percent(share: Any) -> str:
    """A share (0 to 1) as a percentage with one decimal. Only a full share reads as 100 %, only none as 0 %."""
    if not is_number(share):
        return DASH
    if 0.9995 <= share < 1:
        return "> 99.9 %"
    if 0 < share < 0.0005:
        return "< 0.1 %"
    return f"{100 * share:.1f} %"


def times(factor: Any) -> str:
    """A factor such as a speed-up, with a multiplication sign."""
    return f"{number(factor)}×" if is_number(factor) else DASH


def duration(seconds: Any) -> str:
    """A length of time in seconds, in the largest unit that leaves at least 1: us, ms, s, min, h, d."""
    if not is_number(seconds):
        return DASH
    if seconds <= 0:
        return "0 s"
    if seconds < 1e-3:
        return f"{number(float(seconds * 1e6))} µs"
    if seconds < 1:
        return f"{number(float(seconds * 1e3))} ms"
    if seconds < 120:
        return f"{number(float(seconds))} s"
    for unit, size in (("min", 60.0), ("h", 3600.0)):
        if seconds < 120 * size:
            return f"{number(seconds / size)} {unit}"
    return f"{number(seconds / 86_400)} d"


def size(num_bytes: Any) -> str:
    """Bytes in the largest decimal unit that leaves at least 1: B, kB, MB, GB, TB."""
    if not is_number(num_bytes):
        return DASH
    value = float(num_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if abs(value) < 1000:
            return f"{number(value)} {unit}"
        value /= 1000
    return f"{number(value)} TB"


def brief(quantity: str) -> str:
    """A written quantity without the zeros that its precision added: `20.0 ms` reads `20 ms`."""
    figure, space, unit = quantity.partition(" ")
    return (figure.rstrip("0").rstrip(".") if "." in figure else figure) + space + unit


def milliseconds(value_ms: Any) -> str:
    """`duration` of a value in milliseconds."""
    return duration(value_ms / 1e3) if is_number(value_ms) else DASH


def latency_row(values_ms: Mapping[str, Any], columns: Sequence[str]) -> tuple[str, list[str]]:
    """The unit that suits a row of latencies in milliseconds (s where its median reaches 1 s), and its cells."""
    cells = [values_ms.get(column) for column in columns]
    middle = values_ms.get("p50", values_ms.get("mean"))
    unit, scale = ("s", 1e3) if is_number(middle) and middle >= 1e3 else ("ms", 1.0)
    return unit, [number(float(cell) / scale) if is_number(cell) else DASH for cell in cells]


def section(summary: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The nested record `key` of a summary, empty where it is absent."""
    value = summary.get(key)
    return value if isinstance(value, Mapping) else {}


def flatten(record: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every leaf of a nested record as (dotted name, text), in the record's own order."""
    for key, value in record.items():
        name = f"{prefix}{clean(key)}"
        if isinstance(value, Mapping) and value:
            yield from flatten(value, f"{name}.")
        else:
            yield name, DASH if value is None or value == "" else clean(value)


def find(record: Mapping[str, Any], *names: str) -> Any:
    """The first value among `names`, wherever in the nested record it stands; the shallowest wins. None if absent."""
    for name in names:
        if record.get(name) is not None:
            return record[name]
    for value in record.values():
        if isinstance(value, Mapping) and (found := find(value, *names)) is not None:
            return found
    return None


def title_of(config: Mapping[str, Any], key: str) -> str:
    """The name under `key`: itself where it is a text, its `name` where it is a record; a dash if absent."""
    value = config.get(key)
    if isinstance(value, Mapping):
        value = value.get("name")
    return clean(value) if value not in (None, "") else DASH
