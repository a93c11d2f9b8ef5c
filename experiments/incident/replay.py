"""Plays a recorded run again: the same scheduler, told the same at the same points."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

from experiments.event_log import DecisionSum
from experiments.incident.form import FORMAT, delivery_of
from experiments.incident.recorder import trace_path
from experiments.incident.told_device import Parted, ToldDevice
from experiments.parity.counts import Counts
from experiments.watch import SECONDS_BETWEEN_SHOWS, Progress, Show
from schedlab.config import SchedulerConfig
from schedlab.core.scheduler import Scheduler
from schedlab.device import DeviceFacts, StepResult
from schedlab.driver import Idle, Settle, Wait, drive
from schedlab.errors import DeviceFault, UsageError
from schedlab.pace import ArithmeticPace, ns_to_quanta
from schedlab.policies.base import Policy
from schedlab.policies.registry import policy_for
from schedlab.policies.source import policy_sha256
from schedlab.testing.laws import SAME_INPUT

_HEAD_CHARS = 64
_TICK = b'{"tick":'
# What a scheduler waits for at each point; the other lines belong to the point before them.
_WAITS: dict[str, type] = {"tick": Idle, "receive": Settle, "step": Wait, "end": Settle}


class Point(NamedTuple):
    """A line at which the scheduler goes on, and what it asks for from then to the next."""

    kind: str
    line: dict[str, Any]
    told: list[dict[str, Any]]


@dataclass(slots=True)
class Replayed:
    """What came of it. `crc` is that of the decision log; `is_whole` if the recording has its end."""

    counts: Counts
    num_ticks: int = 0
    crc: int = 0
    is_whole: bool = False


def is_incident(path: Path) -> bool:
    """Whether a file is a recorded run, told by its first field."""
    try:
        if not path.is_file():
            return False
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(_HEAD_CHARS).startswith(f'{{"{FORMAT}"')
    except OSError:
        return False


class Incident:
    """A recorded run. Raises UsageError for a file that is none, or is damaged.

    Attributes:
        total_ticks: of the recording.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            header = next(_lines(path), {})
            if header[FORMAT] != 1:
                raise UsageError(f"{path}: is written in format {header[FORMAT]}; this version reads 1")
            hints = get_type_hints(SchedulerConfig)
            config = SchedulerConfig(**{name: hints[name](value) for name, value in header["scheduler"].items()})
            self._device = ToldDevice(DeviceFacts(**header["facts"]))
            policy = policy_for(config, header["policy"], header["settings"])
            _refuse_changed(path, header["policy"], policy, header.get("policy_sha256"))
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError(f"{path}: its first line is damaged ({error})") from None
        self.total_ticks = _num_ticks(path)
        self.core = Scheduler(config, policy, self._device, leap=False)
        self._sum, self._result = DecisionSum(), Replayed(Counts())
        self.core.bus.add(self._sum)
        self.core.bus.add(self._result.counts)

    def replay(self, show: Show | None = None) -> Replayed:
        """Play it to its end, or to its last whole line if it was cut off; `show` is told now and then how far it is.

        Raises:
            InvariantViolation: the scheduler goes on otherwise than it did; the message names the tick.
            UsageError: a line of the file is damaged.
        """
        result = self._result
        try:
            self._play(show)
        except Parted as parted:
            raise SAME_INPUT.broken(f"{self._path}: tick {result.num_ticks}: {parted}") from None
        except (KeyError, TypeError, ValueError, IndexError) as error:
            where = f"behind tick {result.num_ticks}"
            raise UsageError(f"{self._path}: damaged {where} ({type(error).__name__}: {error})") from None
        result.crc = self._sum.crc
        return result

    def _play(self, show: Show | None) -> None:
        started = shown = time.monotonic()
        loop = drive(self.core)
        command = next(loop)
        for point in _points(self._path):
            if isinstance(command, Settle) and point.kind in ("tick", "step"):
                command = loop.send(None)
            self._result.num_ticks += point.kind == "tick"
            if show is not None and (now := time.monotonic()) - shown >= SECONDS_BETWEEN_SHOWS:
                shown = now
                show(self._progress(now - started))
            if not isinstance(command, _WAITS[point.kind]):
                waits = type(command).__name__
                raise Parted(f"the recording goes on with a {point.kind}, and the scheduler waits otherwise ({waits})")
            for line in point.told:
                self._device.learn(line)
            if point.kind == "end":
                self._end(loop, point)
                return
            answer = self._answer(point)
            command = loop.send(answer)

    def _progress(self, wall_s: float) -> Progress:
        counts, now_ns = self._result.counts, self._device.time_ns
        return Progress(self._result.num_ticks, self.total_ticks, counts.output_tokens, now_ns, wall_s)

    def _answer(self, point: Point) -> StepResult | None:
        """Set the time, and give the scheduler what it was told then."""
        if point.kind == "step":
            self._device.time_ns = point.line["now"]
            return self._step(point.line)
        self._device.time_ns = point.line[point.kind]
        self._check(point.line["log"])
        size = self.core.config.block_size
        for row in point.line["inbox"]:
            self.core.inbox.deliver(delivery_of(row, size, self._device.tickets))
        return None

    def _step(self, line: dict[str, Any]) -> StepResult:
        begin_ns, end_ns = line["step"]
        pace = ArithmeticPace(ns_to_quanta(begin_ns), 1, ns_to_quanta(max(end_ns - begin_ns, 1)))
        if line["fault"] is not None:
            return StepResult(1, pace, [], fault=DeviceFault(line["fault"]))
        return StepResult(1, pace, [self.core.sequences[request_id] for request_id in line["ended"]])

    def _end(self, loop: Any, point: Point) -> None:
        with suppress(StopIteration):
            loop.send(None)
            raise Parted("the recording ends here, and the scheduler goes on")
        self._check(point.line["end"])
        self._result.is_whole = True

    def _check(self, crc: int) -> None:
        if self._sum.crc != crc:
            raise Parted("the decisions since the tick before are not those of the recorded run")


def _refuse_changed(path: Path, name: str, policy: Policy, recorded: str | None) -> None:
    now = policy_sha256(name, policy)
    if now != recorded:
        raise UsageError(
            f"{path}: the file of policy {name} has changed since the recording: its sha256 is {now}, it was "
            f"{recorded}; bring back that file, or see the new policy on this traffic: "
            f"schedlab replay {trace_path(path)} --policy {name}"
        )


def _points(path: Path) -> Iterator[Point]:
    """In order; a point whose successor is not there is the last, and then nothing is known to be told behind it."""
    point: Point | None = None
    lines = _lines(path)
    next(lines)
    for line in lines:
        kind = next((name for name in _WAITS if name in line), None)
        if kind is None:
            if point is None:
                raise ValueError("something is told before the first tick")
            point.told.append(line)
            continue
        if point is not None:
            yield point
        point = Point(kind, line, [])
    if point is not None and point.kind == "end":
        yield point


def _num_ticks(path: Path) -> int:
    with path.open("rb") as file:
        return sum(text.startswith(_TICK) for text in file)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Each line's object; one that was cut off at the end of the file is left out."""
    try:
        with path.open(encoding="utf-8") as file:
            for text in file:
                if text.endswith("\n"):
                    yield json.loads(text)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
