"""What the server did, in a line every ten seconds while there is anything to tell."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import NamedTuple

from schedlab.serve.metrics import ServerMetrics

_INTERVAL_S = 10.0
log = logging.getLogger("schedlab.serve")


class _Counts(NamedTuple):
    prompt_tokens: int
    output_tokens: int
    cache_queries: int
    cache_hits: int


class Progress:
    """Rates since the last line."""

    def __init__(self, metrics: ServerMetrics, now_s: Callable[[], float] = time.monotonic) -> None:
        self._metrics = metrics
        self._now_s = now_s
        self._told_s, self._told = now_s(), self._counts()

    def line(self) -> str:
        """Empty if nothing runs, waits or has happened since the last one."""
        now_s, counts, metrics = self._now_s(), self._counts(), self._metrics
        seconds = max(now_s - self._told_s, 1e-9)
        new = _Counts(*(after - before for after, before in zip(counts, self._told, strict=True)))
        self._told_s, self._told = now_s, counts
        if not (any(new) or metrics.num_running or metrics.num_waiting):
            return ""
        hits = f", cache hits {new.cache_hits / new.cache_queries:.1%}" if new.cache_queries else ""
        return (
            f"{metrics.num_running} running, {metrics.num_waiting} waiting; "
            f"{new.prompt_tokens / seconds:,.1f} prompt and {new.output_tokens / seconds:,.1f} output tokens/s; "
            f"KV {metrics.kv_usage:.1%} used{hits}"
        )

    async def tell(self) -> None:
        """Log the lines until cancelled."""
        while True:
            await asyncio.sleep(_INTERVAL_S)
            if line := self.line():
                log.info(line)

    def _counts(self) -> _Counts:
        metrics = self._metrics
        return _Counts(metrics.prompt_tokens, metrics.generation_tokens, metrics.cache_queries, metrics.cache_hits)
