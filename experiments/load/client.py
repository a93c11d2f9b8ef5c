"""Sends a trace's requests when they are due and notes when what comes back."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from experiments.load.http import Failed, Target, events
from schedlab.request import FinishReason
from traces.record import TraceRecord

# Ids that every vocabulary has and that no special token has.
_FIRST_TOKEN, _NUM_TOKENS = 100, 800
_MIX = 0x9E3779B97F4A7C15
_NS_PER_S = 1_000_000_000


@dataclass(slots=True)
class Outcome:
    """One request as its client saw it; times in nanoseconds since the start.

    Attributes:
        token_ns: when each event with text came.
        end_ns: of the request, or of its being cut off with the whole run.
        output_tokens: by the server's own count, or else the events.
        reason: why it ended; None of one that was cut off.
        error: why it failed; empty if it did not.
    """

    number: int
    record: TraceRecord
    sent_ns: int
    token_ns: list[int] = field(default_factory=list)
    end_ns: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reason: FinishReason | None = None
    error: str = ""


class Load:
    """Runs a trace against a server: open loop by its stamps, sessions turn by turn.

    Args:
        most: requests in flight at a time; more wait on this side, and that counts as their latency.
        timeout_s: a request that takes longer has failed.
        on_end: told of each outcome, and of those in flight when the run is cut off.
    """

    def __init__(
        self, target: Target, model: str, most: int | None, timeout_s: float, on_end: Callable[[Outcome], None]
    ) -> None:
        self._target = target
        self._model = model
        self._seats = asyncio.Semaphore(most) if most is not None else None
        self._timeout_s = timeout_s
        self._on_end = on_end
        self._begin_ns = 0
        self._num_sent = 0

    async def run(self, records: Iterable[TraceRecord]) -> None:
        """Until every request has ended."""
        self._begin_ns = time.monotonic_ns()
        async with asyncio.TaskGroup() as group:
            for turns in _sessions(records):
                await self._sleep_until(turns[0].arrival_ns)
                group.create_task(self._session(turns))

    def now_ns(self) -> int:
        return time.monotonic_ns() - self._begin_ns

    async def _session(self, turns: list[TraceRecord]) -> None:
        for record in turns:
            if record.think_ns > 0:
                await self._sleep_until(self.now_ns() + record.think_ns)
            await self._request(record)

    async def _request(self, record: TraceRecord) -> None:
        outcome = Outcome(self._num_sent, record, self.now_ns(), prompt_tokens=record.prompt_tokens)
        self._num_sent += 1
        try:
            async with asyncio.timeout(self._timeout_s):
                if self._seats is None:
                    await self._exchange(outcome)
                else:
                    async with self._seats:
                        await self._exchange(outcome)
        except TimeoutError:
            outcome.reason, outcome.error = FinishReason.TIMEOUT, f"no end within {self._timeout_s:g} s"
        except (Failed, OSError) as error:
            outcome.reason, outcome.error = FinishReason.ERROR, str(error) or type(error).__name__
        finally:
            outcome.end_ns = self.now_ns()
            outcome.output_tokens = outcome.output_tokens or len(outcome.token_ns)
            self._on_end(outcome)

    async def _exchange(self, outcome: Outcome) -> None:
        async for data in events(self._target, "/v1/completions", self._body(outcome)):
            self._take(outcome, data)
        if outcome.reason is None:
            raise Failed("the stream ended without a finish_reason")

    def _take(self, outcome: Outcome, data: bytes) -> None:
        try:
            event = json.loads(data)
            choices, usage = event.get("choices"), event.get("usage")
            if "error" in event:
                raise Failed(str(event["error"].get("message", event["error"])))
            if choices:
                outcome.token_ns.append(self.now_ns())
                if finish := choices[0].get("finish_reason"):
                    outcome.reason = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH}.get(
                        finish, FinishReason.CANCELLED
                    )
            if usage:
                outcome.prompt_tokens = usage["prompt_tokens"]
                outcome.output_tokens = usage["completion_tokens"]
                outcome.cached_tokens = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Failed(f"an event that is none: {data[:200]!r}: {error!r}") from None

    def _body(self, outcome: Outcome) -> dict[str, Any]:
        return {
            "model": self._model,
            "prompt": prompt_of(outcome.record, outcome.number),
            "max_tokens": max(outcome.record.output_tokens, 1),
            "ignore_eos": True,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    async def _sleep_until(self, at_ns: int) -> None:
        left_ns = at_ns - self.now_ns()
        if left_ns > 0:
            await asyncio.sleep(left_ns / _NS_PER_S)


def prompt_of(record: TraceRecord, number: int) -> list[int]:
    """Made-up tokens, equal where the trace says that blocks are, else the request's own."""
    tokens: list[int] = []
    size = record.hash_block_tokens
    for block in record.hash_ids or ():
        tokens += (_token(block, place) for place in range(min(size, record.prompt_tokens - len(tokens))))
    return tokens + [_token(~number, place) for place in range(len(tokens), record.prompt_tokens)]


def _token(source: int, place: int) -> int:
    bits = (source * _MIX + place * 0xD1B54A32D192ED03) % (1 << 64)
    bits = ((bits ^ (bits >> 29)) * 0xBF58476D1CE4E5B9) % (1 << 64)
    return _FIRST_TOKEN + (bits >> 32) % _NUM_TOKENS


def _sessions(records: Iterable[TraceRecord]) -> list[list[TraceRecord]]:
    """Requests that follow one another, in the order in which the first of each is due."""
    found: list[list[TraceRecord]] = []
    open_sessions: dict[str, list[TraceRecord]] = {}
    for record in records:
        if record.think_ns >= 0 and record.session in open_sessions:
            open_sessions[record.session].append(record)
            continue
        found.append([record])
        open_sessions[record.session] = found[-1]
    return sorted(found, key=lambda turns: turns[0].arrival_ns)
