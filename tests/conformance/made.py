"""Cases made by rule instead of by file: loads of any size, from a seed."""

from __future__ import annotations

from random import Random
from typing import Any

from schedlab.request import Prompt, Request
from tests.conformance.scenario import NS_PER_MS, Ask, Case, Dropped
from tests.conformance.texts import OWN, Texts


def made_case(
    asks: tuple[Ask, ...],
    setup: dict[str, Any],
    config: dict[str, Any] | None = None,
    cancels: tuple[Dropped, ...] = (),
) -> Case:
    """A case without expectations of its own: the caller has them."""
    return Case("made", "", "made by rule", setup, config or {}, asks, cancels, {}, "")


def ask(request_id: int, prompt: int | Prompt, max_tokens: int, at_ns: int = 0, name: str = "", **fields: Any) -> Ask:
    """A request that runs to its limit, called R<id> unless it has a name; `prompt` may be tokens that nobody has."""
    prompt = Prompt(prompt) if isinstance(prompt, int) else prompt
    request = Request(request_id, prompt, max_tokens, at_ns, **fields)
    return Ask(name or f"R{request_id}", request, at_ns, None, None)


def crowd(count: int, seed: int, ids: list[int] | None = None) -> tuple[Ask, ...]:
    """Requests of 1..60 prompt and 1..30 output tokens, about two every step of 1 ms; some share an instant."""
    random, at_ns, asks = Random(seed), 0, []
    for index in range(count):
        at_ns += random.choice((0, 300_000, 1_000_000))
        prompt, outputs, priority = random.randint(1, 60), random.randint(1, 30), random.randint(0, 3)
        asks.append(ask(ids[index] if ids else index, prompt, outputs, at_ns, priority=priority))
    return tuple(asks)


def readers(count: int, seed: int, texts: int = 6) -> tuple[Ask, ...]:
    """The same kind of crowd, each with a beginning of one of a few texts and an own end, in one of two namespaces."""
    random, at_ns, library, asks = Random(seed), 0, Texts(), []
    for index in range(count):
        at_ns += random.choice((0, 300_000, 1_000_000))
        pieces = [(f"text{random.randrange(texts)}", random.randint(1, 50)), (OWN, random.randint(0, 20))]
        prompt, salt = library.prompt(pieces, str(index)), random.choice(("", "", "salt"))
        asks.append(ask(index, prompt, random.randint(1, 30), at_ns, cache_salt=salt, priority=random.randint(0, 3)))
    return tuple(asks)


def some_leave(asks: tuple[Ask, ...], seed: int, share: float = 0.1) -> tuple[Dropped, ...]:
    """Clients of about `share` of the requests go away within 40 ms of their arrival."""
    random = Random(seed)
    return tuple(
        Dropped(one.request.request_id, one.at_ns + random.randint(0, 40) * NS_PER_MS)
        for one in asks
        if random.random() < share
    )
