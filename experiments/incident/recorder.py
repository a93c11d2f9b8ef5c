"""Writes down all that a server's scheduler is told, while it goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from experiments.config import VERSION_KEY, schedlab_version
from experiments.event_log import DecisionSum
from experiments.incident.form import FORMAT, delivery_row
from experiments.incident.latched import LatchedDevice
from schedlab.core.scheduler import Scheduler
from schedlab.device import Device, StepResult
from schedlab.inbox import Delivery, Inbox
from schedlab.pace import quanta_to_ns
from schedlab.policies.source import policy_sha256
from schedlab.request import FinishReason

_SUFFIX = ".ticks.jsonl"
Tell = Callable[[dict[str, Any]], None]


def ticks_path(trace: Path) -> Path:
    """Where the ticks are that belong to a recorded trace."""
    return trace.with_name(trace.name.removesuffix(".jsonl") + _SUFFIX)


def trace_path(ticks: Path) -> Path:
    """The recorded trace that such ticks belong to."""
    return ticks.with_name(ticks.name.removesuffix(_SUFFIX) + ".jsonl")


def line_of(told: dict[str, Any]) -> bytes:
    """What a scheduler was told, as a line of the file."""
    return (json.dumps(told, separators=(",", ":")) + "\n").encode()


class RecordedScheduler(Scheduler):
    """The scheduler of another one's configuration, policy and device, which tells of all that comes in.

    Its clock stands still within a tick, but for the ends of steps.
    """

    def __init__(self, like: Scheduler, policy_name: str, settings: Mapping[str, str], tell: Tell) -> None:
        self._tell = tell
        self._latched = LatchedDevice(like.device, tell)
        device: Device = self._latched
        super().__init__(like.config, like.policy, device, leap=False)
        self.inbox = _TappedInbox(self._drained)
        self._sum = DecisionSum()
        self.bus.add(self._sum)
        self._reason = "tick"
        tell(
            {
                FORMAT: 1,
                VERSION_KEY: schedlab_version(),
                "policy": policy_name,
                "policy_sha256": policy_sha256(policy_name, like.policy),
                "settings": dict(settings),
                "scheduler": asdict(like.config),
                "facts": asdict(like.device.facts),
            }
        )

    def begin_tick(self) -> None:
        self._latched.latch()
        self._reason = "tick"
        super().begin_tick()

    def receive(self) -> None:
        self._latched.latch()
        self._reason = "receive"
        super().receive()

    def commit(self, result: StepResult) -> None:
        now_ns, before, pace = self._latched.latch(), set(self.ending), result.pace
        super().commit(result)
        stopped = [
            sequence.request_id
            for sequence, reason in self.ending.items()
            if reason is FinishReason.STOP and sequence not in before
        ]
        times = [quanta_to_ns(pace.start_quanta), quanta_to_ns(pace.last_quanta)]
        self._tell(
            {
                "step": times,
                "now": now_ns,
                "ended": stopped,
                "fault": None if result.fault is None else str(result.fault),
            }
        )

    def finish(self) -> None:
        super().finish()
        self._tell({"end": self._sum.crc})

    def _drained(self, deliveries: list[Delivery]) -> None:
        rows = [delivery_row(delivery, self.config.block_size) for delivery in deliveries]
        self._tell({self._reason: self.device.now_ns(), "inbox": rows, "log": self._sum.crc})


class _TappedInbox(Inbox):
    """Shows what is drained."""

    __slots__ = ("_tap",)

    def __init__(self, tap: Callable[[list[Delivery]], None]) -> None:
        super().__init__()
        self._tap = tap

    def drain(self) -> list[Delivery]:
        deliveries = super().drain()
        self._tap(deliveries)
        return deliveries
