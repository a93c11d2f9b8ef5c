"""The observers of a replay, and what of them is no table of its own."""

from __future__ import annotations

import re
from typing import Any

from backends.sim.links import Links
from experiments.metrics.latency import TokenGaps
from experiments.metrics.requests import RequestTable
from experiments.metrics.timeline import Timeline
from experiments.metrics.traffic import Traffic
from experiments.metrics.usage import Usage
from experiments.request_maker import RequestMaker
from reports.perfetto import PerfettoRecorder
from schedlab.events import EventBus, Finished, Refused
from schedlab.request import FinishReason

_NUMBER = re.compile(r"\d+")


class Reasons:
    """Observer: why requests were refused or failed, grouped by the sentence without its numbers."""

    def __init__(self) -> None:
        self.refused: dict[str, dict[str, Any]] = {}
        self.failed: dict[str, dict[str, Any]] = {}

    def on_refused(self, event: Refused) -> None:
        _count(self.refused, event.sequence.request_id, event.reason)

    def on_finished(self, event: Finished) -> None:
        if event.reason is FinishReason.ERROR:
            _count(self.failed, event.sequence.request_id, event.sequence.error)


def _count(groups: dict[str, dict[str, Any]], request_id: int, reason: str) -> None:
    group = groups.setdefault(_NUMBER.sub("N", reason), {"count": 0, "first_request": request_id, "reason": reason})
    group["count"] += 1


class Observers:
    """All that look at one run."""

    def __init__(self, maker: RequestMaker, perfetto_window_ns: tuple[int, int] | None) -> None:
        self.maker = maker
        self.requests = RequestTable()
        self.gaps = TokenGaps()
        self.usage = Usage()
        self.timeline = Timeline(self.usage)
        self.traffic = Traffic()
        self.reasons = Reasons()
        self.perfetto = PerfettoRecorder(perfetto_window_ns)

    def add_to(self, bus: EventBus, links: Links, *, with_copies: bool) -> None:
        """Subscribe every one of them, those that look at copies to the links too if there will be any."""
        everyone = (self.requests, self.gaps, self.usage, self.timeline, self.reasons, self.perfetto, self.maker)
        for observer in (*everyone, self.traffic) if with_copies else everyone:
            bus.add(observer)
        if with_copies:
            links.on_begin += [self.traffic.copy_begun, self.perfetto.copy_begun]
