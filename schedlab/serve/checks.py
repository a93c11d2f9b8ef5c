"""What this server admits of a request, and what it says of the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from schedlab.config import SchedulerConfig
from schedlab.memory.blocks import blocks_for
from schedlab.serve.errors import bad
from schedlab.serve.schema import Body, ChatBody, CompletionBody
from schedlab.serve.tokenizer import Tokenizer

_MOST_STOPS, _LONGEST_STOP, _MOST_STOP_TOKENS = 16, 1024, 128
_DEFAULT_COMPLETION_TOKENS = 16
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


def unknown_fields(body: Body) -> list[str]:
    """Fields that nobody reads, after those that are refused.

    Raises ApiError for a field that has a meaning which is not served.
    """
    extra = body.model_extra or {}
    for name, value in extra.items():
        if name in _NOT_SERVED and value not in _NOT_SERVED[name]:
            raise bad(name, f"{name} is not served here; leave it out")
    return [name for name in extra if name not in _NOT_SERVED and name not in _HARMLESS]


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
    stops = stops_of(body)
    if len(stops) > _MOST_STOPS or any(not 0 < len(stop) <= _LONGEST_STOP for stop in stops):
        raise bad("stop", f"give at most {_MOST_STOPS} stop strings of 1..{_LONGEST_STOP} characters")


def logprobs_of(body: Body) -> int | None:
    """How many logprobs beside each token's own; None = none at all.

    Raises ApiError.
    """
    if isinstance(body, ChatBody):
        if body.top_logprobs is not None and not body.logprobs:
            raise bad("top_logprobs", "top_logprobs needs logprobs=true")
        return body.top_logprobs or 0 if body.logprobs else None
    assert isinstance(body, CompletionBody)
    return body.logprobs


def stops_of(body: Body) -> tuple[str, ...]:
    """Strings that end the output."""
    return (body.stop,) if isinstance(body.stop, str) else tuple(body.stop or ())


def truncated(prompt: list[int], body: Body, limits: Limits) -> list[int]:
    """The last tokens of a prompt, where the request asks for that; -1: as many as leave room for `max_tokens`."""
    most = body.truncate_prompt_tokens
    if most == -1:
        most = max(limits.config.max_model_len - (asked_tokens(body) or 1), 1)
    return prompt if most is None else prompt[-most:]


def asked_tokens(body: Body) -> int | None:
    """How long the output may be, as far as the request says."""
    if isinstance(body, ChatBody) and body.max_completion_tokens is not None:
        limit: int | None = body.max_completion_tokens
    else:
        limit = body.max_tokens
    return limit


def check_prompt(prompt: list[int], body: Body, tokenizer: Tokenizer, limits: Limits) -> None:
    """Raises ApiError for a prompt that is empty, of other tokens, or too long for context or memory."""
    name = "messages" if isinstance(body, ChatBody) else "prompt"
    if not prompt:
        raise bad(name, "the prompt is empty; give at least one token")
    if max(prompt) >= tokenizer.vocab:
        raise bad(name, f"token {max(prompt)} is not in the vocabulary of {tokenizer.vocab} tokens")
    longest, block_size = limits.config.max_model_len, limits.config.block_size
    if len(prompt) > longest - (0 if asked_tokens(body) == 0 else 1):
        raise bad(name, f"the prompt has {len(prompt)} tokens; this server's context has {longest}")
    if blocks_for(len(prompt), block_size) > limits.num_blocks:
        room = limits.num_blocks * block_size
        raise bad(name, f"the prompt has {len(prompt)} tokens; this server's memory holds {room}")


def max_tokens_of(body: Body, prompt_tokens: int, limits: Limits) -> int:
    """Length of the output behind a prompt of so many tokens.

    Raises ApiError.
    """
    room = limits.config.max_model_len - prompt_tokens
    given = asked_tokens(body)
    if given is None:
        given = room if isinstance(body, ChatBody) else min(_DEFAULT_COMPLETION_TOKENS, room)
    name = "max_tokens"
    if isinstance(body, ChatBody) and body.max_completion_tokens is not None:
        name = "max_completion_tokens"
    least = 1 if isinstance(body, ChatBody) else 0
    if given < least:
        raise bad(name, f"{name} is {given}; give at least {least}")
    if given > room:
        raise bad(
            name,
            f"{prompt_tokens} prompt tokens and {name}={given} exceed the context of "
            f"{limits.config.max_model_len} tokens; give at most {room}",
        )
    if body.min_tokens > given:
        raise bad("min_tokens", f"min_tokens is {body.min_tokens}, more than {name} ({given})")
    return given
