"""One request of a trace, the only thing that readers, generators and transforms exchange."""

from __future__ import annotations

from typing import NamedTuple


class TraceRecord(NamedTuple):
    """What a trace says about one request.

    In an open-loop trace every record carries its arrival stamp and `think_ns` is -1. In a closed-loop trace the
    first turn of a session carries the stamp, and each later turn carries the gap from the end of the turn before it
    (`think_ns` >= 0, `arrival_ns` unused and 0).

    `hash_ids` names the blocks of `hash_block_tokens` tokens that the prompt starts with: equal ids mean equal blocks
    after equal prefixes. An empty tuple is a prompt shorter than one block; None is a trace without ids.
    """

    arrival_ns: int
    prompt_tokens: int
    output_tokens: int
    session: str = ""
    turn: int = 0
    think_ns: int = -1
    tenant: str = ""
    priority: int = 0
    max_tokens: int = -1
    hash_ids: tuple[int, ...] | None = None
    hash_block_tokens: int = 0
