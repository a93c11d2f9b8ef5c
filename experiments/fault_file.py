"""Fault plans as TOML files: `schedlab replay --faults plan.toml`.

Every table may stand any number of times. A duration is text with a unit (`"250ms"`, `"12.5s"`, `"2m"`) and counts from
the start of the run. Steps are iterations of the device and are counted from 1, copies from 1 on the links named.
What nothing of the run can meet is refused: links that the scheduler never uses, a request that the trace has not.

    [[step_failure]]              # a step that fails: its requests end with an error
    steps = [3, 17]               # these; or `at = "12s"`, the one under way then; or `chance = 0.001` with `seed = 7`

    [[device_loss]]               # from then on every step fails, and nothing more is sent
    at = "60s"                    # or `step = 1000`

    [[slow_steps]]                # steps that take `factor` times as long
    factor = 2.5
    from = "10s"                  # those that begin from here to there; or `steps`; or `chance` with `seed`
    to = "20s"

    [[slow_links]]                # copies that take `factor` times as long when they get their link from here to there
    factor = 4
    from = "10s"
    to = "20s"
    links = ["d2h", "h2d"]        # of d2h, h2d, host_to_disk, disk_to_host; all if left out

    [[copy_failure]]              # copies that fail when they end
    copies = [1, 2]               # or `chance` with `seed`
    links = ["h2d"]               # all if left out

    [[disk_full]]                 # writes to disk that end from here to there fail
    from = "30s"
    to = "40s"

    [[departure]]                 # a client that leaves
    request = 12
    at = "3s"

    [[departure]]                 # or each with a chance, so long after its arrival
    chance = 0.1
    seed = 3
    after = ["0s", "10s"]         # any time between, as likely
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from experiments.values import duration_ns
from schedlab.device import CopyKind
from schedlab.errors import UsageError
from schedlab.fault_plan import (
    CopyFailure,
    Departure,
    FaultPlan,
    SlowLinks,
    SlowSteps,
    StepFailure,
    Which,
    Window,
)

_Fault = TypeVar("_Fault")
_MOST_FACTOR = 1_000_000
_MOST_BYTES = 1 << 24


def read_plan(path: Path) -> dict[str, Any]:
    """The content of a plan's file, checked.

    Raises:
        UsageError: it cannot be read, or is no plan; the message names the file, the table and the key.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(_MOST_BYTES + 1)
        content = tomllib.loads(raw.decode()) if len(raw) <= _MOST_BYTES else None
    except OSError as error:
        raise UsageError(f"--faults {path}: cannot be read: {error.strerror}; give a file with a fault plan") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--faults {path}: not readable as TOML ({error}); give a file with a fault plan") from None
    if content is None:
        raise UsageError(f"--faults {path}: more than {_MOST_BYTES:,} bytes; let a chance draw so many faults")
    if parse_plan(content, f"{path}: ").is_empty:
        raise UsageError(f"--faults {path}: it plans nothing; add a fault or leave the flag out")
    return content


def parse_plan(content: Mapping[str, Any], where: str = "faults: ") -> FaultPlan:
    """A plan from its content; `where` begins the message of an error.

    Raises:
        UsageError: an unknown table or key, one that is missing, or a value that has no meaning.
    """
    unknown = [name for name in content if name not in _KINDS]
    if unknown:
        raise UsageError(f"{where}unknown table {unknown[0]!r}; known: {', '.join(_KINDS)}")

    def every(name: str, parse: Callable[[_Table], _Fault]) -> tuple[_Fault, ...]:
        tables = content.get(name, [])
        if not isinstance(tables, list) or not all(isinstance(table, Mapping) for table in tables):
            raise UsageError(f"{where}{name}: write it as a table of its own, [[{name}]]")
        if name in content and not tables:
            raise UsageError(f"{where}{name} is empty; add a fault or leave it out")
        return tuple(_parsed(f"{where}{name} {number}: ", table, parse) for number, table in enumerate(tables, 1))

    return FaultPlan(
        every("step_failure", _step_failure),
        every("device_loss", _device_loss),
        every("slow_steps", _slow_steps),
        every("slow_links", _slow_links),
        every("copy_failure", _copy_failure),
        every("disk_full", lambda table: table.window()),
        every("departure", _departure),
    )


_KINDS = ("step_failure", "device_loss", "slow_steps", "slow_links", "copy_failure", "disk_full", "departure")


class _Table:
    """One table; every key that was asked for is known."""

    def __init__(self, where: str, values: Mapping[str, Any]) -> None:
        self.where = where
        self._values = values
        self._known: dict[str, None] = {}

    def has(self, key: str) -> bool:
        self._known[key] = None
        return key in self._values

    def refuse(self, key: str, expected: str) -> UsageError:
        if key in self._values:
            return UsageError(f"{self.where}{key} is {self._values[key]!r}; give {expected}")
        return UsageError(f"{self.where}{key} is missing; give {expected}{self._misspelt()}")

    def _misspelt(self) -> str:
        """Which key that nobody asked for is nearly one that was asked for and is absent."""
        absent = [key for key in self._known if key not in self._values]
        for key in self._values:
            if key not in self._known and (close := get_close_matches(key, absent, n=1)):
                return f"; {key!r} is unknown: did you mean {close[0]}?"
        return ""

    def refuse_unknown(self) -> None:
        for key in self._values:
            if key not in self._known:
                raise UsageError(f"{self.where}unknown key {key!r}; known here: {', '.join(self._known)}")

    def whole(self, key: str, least: int) -> int:
        value = self._values[key] if self.has(key) else None
        if type(value) is not int or value < least:
            raise self.refuse(key, f"a whole number from {least} up")
        return value

    def number(self, key: str, least: float, most: float) -> float:
        value = self._values[key] if self.has(key) else None
        if isinstance(value, bool) or not isinstance(value, int | float) or not least < value <= most:
            raise self.refuse(key, f"a number above {least:g}, at most {most:g}")
        return float(value)

    def time_ns(self, key: str) -> int:
        if not self.has(key) or not isinstance(self._values[key], str):
            raise self.refuse(key, 'a duration such as "12.5s"')
        return duration_ns(f"{self.where}{key}", self._values[key])

    def window(self) -> Window:
        window = Window(self.time_ns("from"), self.time_ns("to"))
        if window.begin_ns >= window.end_ns:
            raise self.refuse("to", "a time after `from`")
        return window

    def numbers(self, key: str) -> tuple[int, ...]:
        values = self._values[key] if self.has(key) else None
        if not isinstance(values, list) or not values or any(type(one) is not int or one < 1 for one in values):
            raise self.refuse(key, "whole numbers from 1 up, such as [3, 17]")
        return tuple(values)

    def pair(self, key: str) -> tuple[str, str]:
        values = self._values[key] if self.has(key) else None
        if not isinstance(values, list) or len(values) != 2 or not all(isinstance(one, str) for one in values):
            raise self.refuse(key, 'two durations, the shorter first, such as ["0s", "10s"]')
        return values[0], values[1]

    def which(self, key: str) -> Which:
        """Numbers under `key`, or a chance with its seed."""
        if self.has("chance") and not self.has(key):
            return Which(chance=self.number("chance", 0, 1), seed=self.whole("seed", 0))
        return Which(self.numbers(key))

    def permille(self) -> int:
        permille = round(1000 * self.number("factor", 1, _MOST_FACTOR))
        if permille == 1000:
            raise self.refuse("factor", "at least 1.001: it counts in thousandths")
        return permille

    def links(self) -> tuple[CopyKind, ...]:
        if not self.has("links"):
            return tuple(CopyKind)
        values = self._values["links"]
        if not isinstance(values, list) or not values or any(value not in list(CopyKind) for value in values):
            raise self.refuse("links", f"a list of {', '.join(CopyKind)}")
        return tuple(CopyKind(value) for value in values)


def _parsed(where: str, values: Mapping[str, Any], parse: Callable[[_Table], _Fault]) -> _Fault:
    table = _Table(where, values)
    fault = parse(table)
    table.refuse_unknown()
    return fault


def _step_failure(table: _Table) -> StepFailure:
    return StepFailure(at_ns=table.time_ns("at")) if table.has("at") else StepFailure(table.which("steps"))


def _device_loss(table: _Table) -> StepFailure:
    if table.has("step"):
        return StepFailure(Which((table.whole("step", 1),)))
    return StepFailure(at_ns=table.time_ns("at"))


def _slow_steps(table: _Table) -> SlowSteps:
    if table.has("from") or table.has("to"):
        return SlowSteps(table.permille(), window=table.window())
    return SlowSteps(table.permille(), table.which("steps"))


def _slow_links(table: _Table) -> SlowLinks:
    return SlowLinks(table.permille(), table.window(), table.links())


def _copy_failure(table: _Table) -> CopyFailure:
    return CopyFailure(table.which("copies"), table.links())


def _departure(table: _Table) -> Departure:
    if table.has("request"):
        return Departure(table.whole("request", 0), table.time_ns("at"))
    chance, seed = table.number("chance", 0, 1), table.whole("seed", 0)
    return Departure(chance=chance, seed=seed, delay=_delay(table))


def _delay(table: _Table) -> Window:
    values = table.pair("after")
    begin_ns, end_ns = (duration_ns(f"{table.where}after", value) for value in values)
    if begin_ns > end_ns:
        raise table.refuse("after", 'two durations, the shorter first, such as ["0s", "10s"]')
    return Window(begin_ns, end_ns + 1)
