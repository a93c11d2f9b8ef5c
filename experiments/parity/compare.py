"""Two decision logs, held against one another."""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple


class Difference(NamedTuple):
    """The first line that differs, or that only one of the logs has: an empty text stands for none.

    Attributes:
        line: its number, from 1; tick: of the real run.
        requests: whom it concerns, by id; none where only times or sums differ.
    """

    line: int
    tick: int
    real: str
    simulated: str

    @property
    def decision(self) -> str:
        """What was decided, on either side if they decided differently."""
        names = [_parsed(text).get("ev") for text in (self.real, self.simulated)]
        return " / ".join(dict.fromkeys(str(name) for name in names if name))

    @property
    def requests(self) -> tuple[int, ...]:
        real, simulated = _parsed(self.real), _parsed(self.simulated)
        if "id" in real or "id" in simulated:
            return tuple(dict.fromkeys(one["id"] for one in (real, simulated) if "id" in one))
        if not real or not simulated:
            return tuple(dict.fromkeys(row[0] for one in (real, simulated) for row in _rows(one)))
        pairs = zip_longest(_rows(real), _rows(simulated))
        different = next((pair for pair in pairs if pair[0] != pair[1]), ())
        return tuple(dict.fromkeys(row[0] for row in different if row))


def first_difference(real: Path, simulated: Path, ticks_of_lines: array[int]) -> Difference | None:
    """None if the logs are the same bytes; `ticks_of_lines` are those of the real one."""
    with real.open(encoding="utf-8", newline="") as ours, simulated.open(encoding="utf-8", newline="") as theirs:
        for number, (our_line, their_line) in enumerate(zip_longest(ours, theirs, fillvalue=""), 1):
            if our_line != their_line:
                tick = ticks_of_lines[min(number, len(ticks_of_lines)) - 1] if ticks_of_lines else 0
                return Difference(number, tick, our_line.rstrip("\n"), their_line.rstrip("\n"))
    return None


def digest(log: Path) -> str:
    """Its sha256."""
    hashed = sha256()
    with log.open("rb") as file:
        while part := file.read(1 << 20):
            hashed.update(part)
    return hashed.hexdigest()


def _rows(step: Mapping[str, Any]) -> list[Any]:
    """Whatever of a step belongs to one request."""
    return [*step.get("chunks", ()), *step.get("blocks", ())]


def _parsed(line: str) -> dict[str, Any]:
    return json.loads(line) if line else {}
