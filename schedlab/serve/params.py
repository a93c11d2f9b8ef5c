"""From a request's body to the scheduler's requests, everything checked before anything is handed in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from random import Random
from typing import Any, NamedTuple

from schedlab.config import SchedulerConfig
from schedlab.errors import UsageError
from schedlab.memory.blocks import blocks_for
from schedlab.request import Prompt, Request, SamplingParams
from schedlab.serve.errors import bad
from schedlab.serve.schema import NAME, Body, ChatBody, CompletionBody
from schedlab.serve.text import StopRule, TextStops
from schedlab.serve.tokenizer import Tokenizer

_DEFAULT_COMPLETION_TOKENS = 16
_MOST_STOPS, _LONGEST_STOP, _MOST_STOP_TOKENS = 16, 1024, 128
_MOST_REQUESTS = 1024
_LARGEST_BIAS = 100
_SEED_BITS = 63
_NAME, _PRIORITY = re.compile(NAME), re.compile("-?[0-9]{1,9}")
_NS_PER_MS = 1_000_000
# Fields that clients send and this server does not serve; a value that changes nothing is let through.
_NOT_SERVED: dict[str, tuple[Any, ...]] = {
    "suffix": (None, ""),
    "best_of": (None, 1),
    "tools": (None, []),
    "tool_choice": (None, "none", "auto"),
    "functions": (None, []),
    "response_format": (None, {"type": "text"}),
    "allowed_token_ids": (None,),
    "bad_words": (None, []),
    "kv_transfer_params": (None,),
    "prompt_embeds": (None,),
    "use_beam_search": (None, False),
}
_HARMLESS = ("service_tier", "store", "metadata", "parallel_tool_calls", "spaces_between_special_tokens")


@dataclass(frozen=True, slots=True)
class Limits:
    """What this server admits.

    Attributes:
        has_priorities: the policy heeds them; otherwise a priority is refused.
        num_blocks: blocks of the pool.
    """

    model: str
    config: SchedulerConfig
    num_blocks: int
    max_logprobs: int
    has_priorities: bool


class Wanted(NamedTuple):
    """One output to be made, and how its text ends."""

    request: Request
    rule: StopRule


class Stamp(NamedTuple):
    """What a request gets from the server: when it came, and the draw that seeds it if it brings no seed."""

    now_ns: int
    next_id: Any
    random: Random


def unknown_fields(body: Body) -> list[str]:
    """Fields that nobody reads, after those that are refused.

    Raises ApiError for a field that has a meaning which is not served.
    """
    extra = body.model_extra or {}
    for name, value in extra.items():
        if name in _NOT_SERVED and value not in _NOT_SERVED[name]:
            raise bad(name, f"{name} is not served here; leave it out")
    return [name for name in extra if name not in _NOT_SERVED and name not in _HARMLESS]


def apply_headers(body: Body, headers: Mapping[str, str]) -> None:
    """Two fields may come as headers: a request's name, and a priority that whoever stands in between decides.

    Raises ApiError.
    """
    name, priority = headers.get("x-request-id"), headers.get("x-override-priority")
    if name and body.request_id is None:
        if not _NAME.fullmatch(name):
            raise bad("x-request-id", "X-Request-Id must be 1..128 printable ASCII characters without spaces")
        body.request_id = name
    if priority:
        if not _PRIORITY.fullmatch(priority):
            raise bad("x-override-priority", "X-Override-Priority must be a whole number of at most 9 digits")
        body.priority = int(priority)


def check(body: Body, limits: Limits) -> None:
    """What can be told without the prompt's tokens.

    Raises ApiError.
    """
    if body.stream_options is not None and not body.stream:
        raise bad("stream_options", "stream_options is for streams; set stream to true or leave it out")
    if body.priority and not limits.has_priorities:
        raise bad(
            "priority", "this server's policy knows no priorities; start it with --policy priority, or leave it out"
        )
    for name, wanted in (("logprobs", logprobs_of(body)), ("prompt_logprobs", body.prompt_logprobs)):
        if wanted is not None and wanted > limits.max_logprobs:
            raise bad(name, f"{name} is {wanted}; this server gives at most {limits.max_logprobs}")
    if body.prompt_logprobs is not None and body.stream:
        raise bad("prompt_logprobs", "prompt_logprobs is not for streams; leave one of them out")
    if len(body.stop_token_ids) > _MOST_STOP_TOKENS:
        raise bad("stop_token_ids", f"give at most {_MOST_STOP_TOKENS} stop_token_ids")
    if body.truncate_prompt_tokens == 0:
        raise bad("truncate_prompt_tokens", "truncate_prompt_tokens is 0; give 1 or more, or -1 for what fits")
    stops = _stops(body)
    if len(stops) > _MOST_STOPS or any(not 0 < len(stop) <= _LONGEST_STOP for stop in stops):
        raise bad("stop", f"give at most {_MOST_STOPS} stop strings of 1..{_LONGEST_STOP} characters")


def logprobs_of(body: Body) -> int | None:
    """How many logprobs beside each token's own; None = none at all."""
    if isinstance(body, ChatBody):
        if body.top_logprobs is not None and not body.logprobs:
            raise bad("top_logprobs", "top_logprobs needs logprobs=true")
        return body.top_logprobs or 0 if body.logprobs else None
    assert isinstance(body, CompletionBody)
    return body.logprobs


def prompts_of(body: CompletionBody, tokenizer: Tokenizer) -> list[list[int]]:
    """Token ids of each prompt."""
    encode, special = tokenizer.encode, body.add_special_tokens
    return [encode(one, add_special_tokens=special) if isinstance(one, str) else one for one in body.prompt]


def wanted_of(
    body: Body, prompts: Sequence[list[int]], tokenizer: Tokenizer, limits: Limits, stamp: Stamp
) -> list[Wanted]:
    """The outputs to make: `n` for each prompt, in the order of their indices.

    Raises ApiError.
    """
    copies = body.n or 1
    if not prompts or len(prompts) * copies > _MOST_REQUESTS:
        raise bad("prompt", f"{len(prompts)} prompts times n={copies}; give 1..{_MOST_REQUESTS} outputs together")
    seed = stamp.random.getrandbits(_SEED_BITS) if body.seed is None else body.seed
    greedy = _or(body.temperature, 1.0) == 0
    wanted = []
    for number, prompt in enumerate(prompts):
        prompt = _truncated(prompt, body, limits)
        _check_prompt(prompt, tokenizer, limits, scored_only=_asked_tokens(body) == 0)
        max_tokens = _max_tokens(body, len(prompt), limits)
        known = Prompt.of_tokens(prompt)
        for copy in range(copies):
            own_seed = 0 if greedy and body.seed is None else sub_seed(seed, number * copies + copy)
            wanted.append(_wanted(body, known, max_tokens, own_seed, tokenizer, stamp))
    return wanted


def sub_seed(seed: int, index: int) -> int:
    """The seed of an output of a request: each has its own."""
    digest = blake2b(f"{seed} {index}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> (64 - _SEED_BITS)


def _wanted(body: Body, prompt: Prompt, max_tokens: int, seed: int, tokenizer: Tokenizer, stamp: Stamp) -> Wanted:
    rule = StopRule(_stops(body), body.include_stop_str_in_output, body.min_tokens)
    stop = TextStops(tokenizer, rule, skip_special=body.skip_special_tokens) if rule.strings else None
    deadline_ns = None if body.deadline_ms is None else stamp.now_ns + body.deadline_ms * _NS_PER_MS
    try:
        request = Request(
            stamp.next_id(),
            prompt,
            max_tokens,
            stamp.now_ns,
            body.priority,
            deadline_ns,
            body.tenant or body.user,
            cache_salt=body.cache_salt or "",
            sampling=_sampling(body, seed, tokenizer),
            stop=stop,
        )
    except UsageError as error:
        # These messages begin with what they are about.
        raise bad(str(error).partition(" ")[0], str(error)) from None
    return Wanted(request, rule)


def _sampling(body: Body, seed: int, tokenizer: Tokenizer) -> SamplingParams:
    return SamplingParams(
        eos_token_ids=tokenizer.eos_token_ids,
        stop_token_ids=_stop_tokens(body, tokenizer.vocab),
        min_tokens=body.min_tokens,
        ignore_eos=body.ignore_eos,
        seed=seed,
        temperature=float(_or(body.temperature, 1.0)),
        top_k=min(max(_or(body.top_k, 0), 0), tokenizer.vocab),
        top_p=float(_or(body.top_p, 1.0)),
        min_p=float(_or(body.min_p, 0.0)),
        presence_penalty=_or(body.presence_penalty, 0.0),
        frequency_penalty=_or(body.frequency_penalty, 0.0),
        repetition_penalty=_or(body.repetition_penalty, 1.0),
        logit_bias=_biases(body, tokenizer.vocab),
        logprobs=logprobs_of(body),
        prompt_logprobs=_prompt_logprobs_of(body),
    )


def _prompt_logprobs_of(body: Body) -> int | None:
    """An echo has them too where the output does."""
    of_echo = logprobs_of(body) if isinstance(body, CompletionBody) and body.echo else None
    given: int | None = body.prompt_logprobs
    return of_echo if given is None else given


def _stop_tokens(body: Body, vocab: int) -> tuple[int, ...]:
    found = tuple(body.stop_token_ids)
    if max(found, default=0) >= vocab:
        raise bad("stop_token_ids", f"token {max(found)} is not in the vocabulary of {vocab} tokens")
    return found


def _biases(body: Body, vocab: int) -> tuple[tuple[int, float], ...]:
    found = []
    for token, bias in (body.logit_bias or {}).items():
        if not (token.isascii() and token.isdigit() and len(token) < 10 and int(token) < vocab):
            raise bad("logit_bias", f"logit_bias names the token {token!r}; give ids below {vocab}")
        if not -_LARGEST_BIAS <= bias <= _LARGEST_BIAS:
            raise bad("logit_bias", f"logit_bias of token {token} is {bias}; give -{_LARGEST_BIAS}..{_LARGEST_BIAS}")
        found.append((int(token), bias))
    return tuple(found)


def _truncated(prompt: list[int], body: Body, limits: Limits) -> list[int]:
    """The last tokens of a prompt, where the request asks for that; -1: as many as leave room for `max_tokens`."""
    most = body.truncate_prompt_tokens
    if most == -1:
        most = max(limits.config.max_model_len - (_asked_tokens(body) or 1), 1)
    return prompt if most is None else prompt[-most:]


def _asked_tokens(body: Body) -> int | None:
    """How long the output may be, as far as the request says."""
    if isinstance(body, ChatBody) and body.max_completion_tokens is not None:
        limit: int | None = body.max_completion_tokens
    else:
        limit = body.max_tokens
    return limit


def _check_prompt(prompt: list[int], tokenizer: Tokenizer, limits: Limits, *, scored_only: bool) -> None:
    if not prompt:
        raise bad("prompt", "the prompt is empty; give at least one token")
    if max(prompt) >= tokenizer.vocab:
        raise bad("prompt", f"token {max(prompt)} is not in the vocabulary of {tokenizer.vocab} tokens")
    longest, block_size = limits.config.max_model_len, limits.config.block_size
    if len(prompt) > longest - (0 if scored_only else 1):
        raise bad("prompt", f"the prompt has {len(prompt)} tokens; this server's context has {longest}")
    if blocks_for(len(prompt), block_size) > limits.num_blocks:
        room = limits.num_blocks * block_size
        raise bad("prompt", f"the prompt has {len(prompt)} tokens; this server's memory holds {room}")


def _max_tokens(body: Body, prompt_tokens: int, limits: Limits) -> int:
    room = limits.config.max_model_len - prompt_tokens
    given = _asked_tokens(body)
    if given is None:
        given = room if isinstance(body, ChatBody) else min(_DEFAULT_COMPLETION_TOKENS, room)
    least = 1 if isinstance(body, ChatBody) else 0
    if given < least:
        raise bad("max_tokens", f"max_tokens is {given}; give at least {least}")
    if given > room:
        raise bad(
            "max_tokens",
            f"{prompt_tokens} prompt tokens and max_tokens={given} exceed the context of "
            f"{limits.config.max_model_len} tokens; give at most {room}",
        )
    if body.min_tokens > given:
        raise bad("min_tokens", f"min_tokens is {body.min_tokens}, more than max_tokens ({given})")
    return given


def _stops(body: Body) -> tuple[str, ...]:
    return (body.stop,) if isinstance(body.stop, str) else tuple(body.stop or ())


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value
