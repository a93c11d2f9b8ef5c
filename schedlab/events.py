"""Typed events: everything that anyone sees of a run goes through here.

An observer is any object with methods named after the events it wants (`on_admitted(event)`). A run without observers
pays for an empty loop only. Events are delivered in order, at once, and must not be kept beyond the call where they
refer to live objects (`StepDone.batch` changes later).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from schedlab.batch import DecodeBatch
from schedlab.device import Chunk, PromptLogprobs, TokenLogprobs
from schedlab.memory.swap import Tier
from schedlab.pace import Pace
from schedlab.request import FinishReason
from schedlab.sequence import Sequence

# Why a swapped-out sequence is computed again after all: nobody chose it.
IMAGE_LOST, RESTORE_FAILED = "image lost", "restore failed"
RESET = "cache reset"


class Arrived(NamedTuple):
    """A request was accepted and waits."""

    now_ns: int
    sequence: Sequence


class Refused(NamedTuple):
    """A request can never run; it never waited."""

    now_ns: int
    sequence: Sequence
    reason: str


class Admitted(NamedTuple):
    """A waiting request got a seat."""

    now_ns: int
    sequence: Sequence


class Preempted(NamedTuple):
    """A sequence gave up its seat and blocks, to be computed again."""

    now_ns: int
    sequence: Sequence
    freed_blocks: int
    reason: str


class Resumed(NamedTuple):
    """A preempted sequence got a seat again and starts over its prefill."""

    now_ns: int
    sequence: Sequence


class SwappedOut(NamedTuple):
    """A sequence gave up its seat and blocks, and its content is on its way to `tier`."""

    now_ns: int
    sequence: Sequence
    tier: Tier
    num_blocks: int
    num_bytes: int


class Restoring(NamedTuple):
    """A swapped-out sequence got a seat and blocks again, and its content is on its way back."""

    now_ns: int
    sequence: Sequence


class Restored(NamedTuple):
    """A swapped-out sequence is back in the decode batch, with its content."""

    now_ns: int
    sequence: Sequence


class Growth(NamedTuple):
    """Blocks handed to decode rows before the `iteration`-th iteration of a step (0-based), in row order."""

    iteration: int
    sequence: Sequence
    block: int


class StepDone(NamedTuple):
    """A step ended. Emitted before its ended rows retire and its finished prompts join the batch.

    Attributes:
        pace: end of each of `pace.count` iterations.
        chunks: prefill chunks computed.
        decode_rows: rows of the batch that each produced `pace.count` tokens; 0 if decode was no part of it.
        context_tokens: sum of the rows' lengths before the first iteration.
        start_step: the batch's step counter before the first iteration; it is `batch.step - pace.count` now.
        batch: the decode batch, membership as it was during the step.
        newcomers: rows whose first decode iteration since they joined this was; their former token came at their
            `last_token_ns`.
        used_blocks: blocks in use during the first iteration, its own growth included.
        growth: blocks handed to decode rows, in (iteration, row) order; complete only if an observer has
            `wants_growth = True`.
        num_waiting: requests waiting for a first seat while the step ran (known to the scheduler).
        num_parked: preempted and swapped sequences.
        tokens, logprobs, prompt_logprobs: as in `StepResult`.
        cached_blocks: blocks with a known key as the step ended, held or idle.
    """

    pace: Pace
    chunks: tuple[Chunk, ...]
    decode_rows: int
    context_tokens: int
    start_step: int
    batch: DecodeBatch
    newcomers: tuple[Sequence, ...]
    used_blocks: int
    growth: list[Growth]
    num_waiting: int
    num_prefilling: int
    num_parked: int
    tokens: dict[int, int] | None
    cached_blocks: int = 0
    logprobs: dict[int, TokenLogprobs] | None = None
    prompt_logprobs: dict[int, PromptLogprobs] | None = None


class FirstToken(NamedTuple):
    """A prompt was finished and its first output token sampled."""

    now_ns: int
    sequence: Sequence


class Finished(NamedTuple):
    """A sequence ended, from whatever state. It holds no resource any more."""

    now_ns: int
    sequence: Sequence
    reason: FinishReason


class CacheReset(NamedTuple):
    """Somebody asked to empty the prefix cache; `done` unless blocks were in use."""

    now_ns: int
    done: bool


EVENT_METHODS: dict[str, type[tuple[Any, ...]]] = {
    "on_arrived": Arrived,
    "on_refused": Refused,
    "on_admitted": Admitted,
    "on_preempted": Preempted,
    "on_resumed": Resumed,
    "on_swapped_out": SwappedOut,
    "on_restoring": Restoring,
    "on_restored": Restored,
    "on_step_done": StepDone,
    "on_first_token": FirstToken,
    "on_finished": Finished,
    "on_cache_reset": CacheReset,
}


class EventBus:
    """Calls each observer's methods, in the order in which the observers were added."""

    __slots__ = (*EVENT_METHODS, "wants_growth")

    wants_growth: bool
    on_arrived: list[Callable[[Arrived], None]]
    on_refused: list[Callable[[Refused], None]]
    on_admitted: list[Callable[[Admitted], None]]
    on_preempted: list[Callable[[Preempted], None]]
    on_resumed: list[Callable[[Resumed], None]]
    on_swapped_out: list[Callable[[SwappedOut], None]]
    on_restoring: list[Callable[[Restoring], None]]
    on_restored: list[Callable[[Restored], None]]
    on_step_done: list[Callable[[StepDone], None]]
    on_first_token: list[Callable[[FirstToken], None]]
    on_finished: list[Callable[[Finished], None]]
    on_cache_reset: list[Callable[[CacheReset], None]]

    def __init__(self) -> None:
        self.wants_growth = False
        for name in EVENT_METHODS:
            setattr(self, name, [])

    def add(self, observer: object) -> None:
        """Subscribe `observer` to every event that it has a method for.

        Raises:
            TypeError: it has a method `on_...` that names no event, or none at all.
        """
        names = [name for name in dir(observer) if name.startswith("on_")]
        unknown = [name for name in names if name not in EVENT_METHODS]
        if unknown or not names:
            raise TypeError(f"{type(observer).__name__} observes {unknown or 'nothing'}; events: {list(EVENT_METHODS)}")
        self.wants_growth |= getattr(observer, "wants_growth", False)
        for name in names:
            getattr(self, name).append(getattr(observer, name))
