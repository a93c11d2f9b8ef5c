"""Cases made by rule instead of by file: loads of any size, from a seed."""

from __future__ import annotations

from random import Random
from typing import Any

from schedlab.request import Prompt, Request
from tests.conformance.scenario import NS_PER_MS, Ask, Case, Dropped


def made_case(
    asks: tuple[Ask, ...],
    setup: dict[str, Any],
    config: dict[str, Any] | None = None,
    cancels: tuple[Dropped, ...] = (),
) -> Case:
    """A case without expectations of its own: the caller has them."""
    return Case("made", "", "made by rule", setup, config or {}, asks, cancels, {}, "")


def ask(request_id: int, prompt: int, max_tokens: int, at_ns: int = 0, name: str = "", **fields: Any) -> Ask:
    """A request that runs to its limit, called R<id> unless it has a name."""
    request = Request(request_id, Prompt(prompt), max_tokens, at_ns, **fields)
    return Ask(name or f"R{request_id}", request, at_ns, None, None)


def crowd(count: int, seed: int, ids: list[int] | None = None) -> tuple[Ask, ...]:
    """Requests of 1..60 prompt and 1..30 output tokens, about two every step of 1 ms; some share an instant."""
    random, at_ns, asks = Random(seed), 0, []
    for index in range(count):
        at_ns += random.choice((0, 300_000, 1_000_000))
        prompt, outputs, priority = random.randint(1, 60), random.randint(1, 30), random.randint(0, 3)
        asks.append(ask(ids[index] if ids else index, prompt, outputs, at_ns, priority=priority))
    return tuple(asks)


def some_leave(asks: tuple[Ask, ...], seed: int, share: float = 0.1) -> tuple[Dropped, ...]:
    """Clients of about `share` of the requests go away within 40 ms of their arrival."""
    random = Random(seed)
    return tuple(
        Dropped(one.request.request_id, one.at_ns + random.randint(0, 40) * NS_PER_MS)
        for one in asks
        if random.random() < share
    )
