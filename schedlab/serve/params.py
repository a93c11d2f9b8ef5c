"""From a checked body to the scheduler's requests, all of them before any is handed in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from random import Random
from typing import Any, NamedTuple

from schedlab.errors import UsageError
from schedlab.request import Prompt, Request, SamplingParams
from schedlab.serve.checks import Limits, check_prompt, logprobs_of, max_tokens_of, stops_of, truncated
from schedlab.serve.errors import bad
from schedlab.serve.schema import NAME, Body, CompletionBody
from schedlab.serve.text import StopRule, TextStops
from schedlab.serve.tokenizer import Tokenizer

_MOST_REQUESTS = 1024
_LARGEST_BIAS = 100
_SEED_BITS = 63
_NAME, _PRIORITY = re.compile(NAME), re.compile("-?[0-9]{1,9}")
_NS_PER_MS = 1_000_000


class Wanted(NamedTuple):
    """One output to be made, and how its text ends."""

    request: Request
    rule: StopRule


class Stamp(NamedTuple):
    """What a request gets from the server: when it came, and the draw that seeds it if it brings no seed."""

    now_ns: int
    next_id: Any
    random: Random


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


def apply_defaults(body: Body, sampling: Mapping[str, float]) -> None:
    """What a request does not say of its sampling is the model's; null is as good as nothing."""
    for name, value in sampling.items():
        if getattr(body, name) is None:
            setattr(body, name, value)


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
        prompt = truncated(prompt, body, limits)
        check_prompt(prompt, body, tokenizer, limits)
        max_tokens = max_tokens_of(body, len(prompt), limits)
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
    rule = StopRule(stops_of(body), body.include_stop_str_in_output, body.min_tokens)
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


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value
