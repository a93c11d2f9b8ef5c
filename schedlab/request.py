"""What a caller hands in: immutable requests, and the words for how they end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from schedlab.errors import UsageError
from schedlab.token_keys import chained_keys


class FinishReason(StrEnum):
    """How a request ended. Every accepted request ends exactly once."""

    STOP = "stop"
    LENGTH = "length"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    ERROR = "error"


class StopMatcher(Protocol):
    """Decides whether a token ends its request. A server supplies it; the scheduler knows no tokenizer."""

    def feed(self, token: int) -> bool:
        """True if `token`, the newest one of the request, ends it."""
        ...


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """What bears on the end and the sampling of one request.

    `seed` and the index of an output determine its sample, so the result depends on no other request.

    Attributes:
        temperature: divides the scores; 0 = the likeliest token.
        top_k: only the so many likeliest tokens; 0 = all.
        top_p: only the likeliest tokens that together hold this probability; 1 = all.
        min_p: only tokens at least this many times as likely as the likeliest; 0 = all.
        presence_penalty, frequency_penalty: taken from the score of a token that was output, once or for each time.
        repetition_penalty: divides the positive scores of tokens in prompt and outputs, and multiplies negative ones.
        logit_bias: added to the scores of tokens, as (token, bias).
        logprobs: report the log-probability of each output, and of so many likeliest tokens beside it; None = neither.
        prompt_logprobs: the same of each token of the prompt but the first. All of it is computed for that: such a
            request takes nothing from the prefix cache. It leaves its blocks there.
    """

    eos_token_ids: tuple[int, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    min_tokens: int = 0
    ignore_eos: bool = False
    seed: int = 0
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    logprobs: int | None = None
    prompt_logprobs: int | None = None

    def __post_init__(self) -> None:
        for name, value, is_sound, wanted in (
            ("temperature", self.temperature, 0 <= self.temperature < float("inf"), "0 or more"),
            ("top_k", self.top_k, self.top_k >= 0, "0 (all) or more"),
            ("top_p", self.top_p, 0 < self.top_p <= 1, "more than 0 and at most 1"),
            ("min_p", self.min_p, 0 <= self.min_p <= 1, "0..1"),
            ("presence_penalty", self.presence_penalty, -2 <= self.presence_penalty <= 2, "-2..2"),
            ("frequency_penalty", self.frequency_penalty, -2 <= self.frequency_penalty <= 2, "-2..2"),
            ("repetition_penalty", self.repetition_penalty, 0 < self.repetition_penalty <= 100, "above 0, at most 100"),
            ("logprobs", self.logprobs, self.logprobs is None or self.logprobs >= 0, "0 or more"),
            ("prompt_logprobs", self.prompt_logprobs, (self.prompt_logprobs or 0) >= 0, "0 or more"),
        ):
            if not is_sound:
                raise UsageError(f"{name} is {value}; give {wanted}")

    @property
    def shifts_scores(self) -> bool:
        """Is any score changed before sampling?"""
        penalties = self.presence_penalty or self.frequency_penalty or self.repetition_penalty != 1
        return bool(penalties or self.logit_bias)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt of `num_tokens` tokens, known by real ids, by a trace's block ids, or by its length only."""

    num_tokens: int
    hash_ids: tuple[int, ...] | None = None
    hash_block_tokens: int = 0
    token_ids: tuple[int, ...] | None = None

    @staticmethod
    def of_tokens(token_ids: Iterable[int]) -> Prompt:
        """A prompt of real tokens."""
        tokens = tuple(token_ids)
        return Prompt(len(tokens), token_ids=tokens)

    @property
    def has_keys(self) -> bool:
        """Is anything known of its tokens but their number? If not, no block of it or of its outputs has a key."""
        return self.hash_ids is not None or self.token_ids is not None

    def block_keys(self, block_size: int) -> list[int]:
        """Chained keys of the full blocks of `block_size` tokens; empty where only the length is known.

        Equal keys mean equal tokens in the block and before it. Where the trace's block is a multiple of ours a trace
        block gives several keys; where ours is a multiple of the trace's, the last trace id inside the block stands
        for it (ids are chained, so it stands for all before it).

        Raises:
            UsageError: neither block size divides the other.
        """
        if self.token_ids is not None:
            return chained_keys(self.token_ids, block_size)
        if self.hash_ids is None:
            return []
        theirs = self.hash_block_tokens
        if theirs % block_size and block_size % theirs:
            raise UsageError(
                f"block size {block_size} and the trace's block of {theirs} tokens do not divide one another; "
                f"choose --set block_size=N with N dividing {theirs} or a multiple of it"
            )
        full_blocks = self.num_tokens // block_size
        if theirs >= block_size:
            parts = range(theirs // block_size)
            return [key * len(parts) + part for key in self.hash_ids for part in parts][:full_blocks]
        step = block_size // theirs
        return list(self.hash_ids[step - 1 :: step][:full_blocks])


@dataclass(frozen=True, slots=True)
class Request:
    """One request. Output lengths are not here: they live in the device's output model.

    Attributes:
        request_id: unique among live requests; ties anywhere go to the lowest.
        max_tokens: most tokens that may be produced; 0 = score the prompt only.
        priority: lower is more important.
        adapter, cache_salt: prompts that differ in one of them share no cached blocks.
        deadline_ns: absolute time at which the request ends wherever it is; None = never.
    """

    request_id: int
    prompt: Prompt
    max_tokens: int
    arrival_ns: int = 0
    priority: int = 0
    deadline_ns: int | None = None
    tenant: str = ""
    session: str = ""
    adapter: str = ""
    cache_salt: str = ""
    sampling: SamplingParams = field(default_factory=SamplingParams)
    stop: StopMatcher | None = None

    def __post_init__(self) -> None:
        if self.prompt.num_tokens < 1:
            raise UsageError(
                f"request {self.request_id}: the prompt has {self.prompt.num_tokens} tokens; give at least 1"
            )
        if self.max_tokens < 0:
            raise UsageError(f"request {self.request_id}: max_tokens is {self.max_tokens}; give 0 or more")
