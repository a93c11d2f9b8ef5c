"""Bodies of requests, as OpenAI names their fields and vLLM its own; `params` gives them their meaning."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    StrictBool,
    StrictInt,
    StrictStr,
    model_validator,
)

MOST_CHOICES = 128
_MOST_MESSAGES = 10_000
_MOST_PROMPTS = 1024
_INT_32, _INT_64 = 1 << 31, 1 << 63
_LONGEST_DEADLINE_MS = 10_000_000_000


def _tokens(value: Any) -> list[int]:
    """Token ids, looked at all at once: there may be millions."""
    if not isinstance(value, list) or set(map(type, value)) - {int} or min(value, default=0) < 0:
        raise ValueError("give a list of token ids, which are whole numbers from 0 on")
    return value


def _prompts(value: Any) -> list[str] | list[list[int]]:
    kinds = set(map(type, value)) if isinstance(value, list) else {type(value)}
    if kinds <= {str}:
        return value if isinstance(value, list) else [value]
    if kinds == {int}:
        return [_tokens(value)]
    if kinds == {list} and len(value) <= _MOST_PROMPTS:
        return [_tokens(one) for one in value]
    raise ValueError(f"give a text, token ids, or a list of at most {_MOST_PROMPTS} of either")


def _content(value: Any) -> str:
    """A message's text, its parts joined."""
    if isinstance(value, list):
        texts = [part["text"] for part in value if isinstance(part, dict) and isinstance(part.get("text"), str)]
        if len(texts) == len(value) and all(part.get("type") == "text" for part in value):
            return "\n".join(texts)
    elif isinstance(value, str | None):
        return value or ""
    raise ValueError('give a text, or parts like {"type": "text", "text": "..."}; no others are served')


Number = Annotated[float, Field(strict=True)]
# What a client calls its request: short, and fit for a log.
NAME = "[!-~]{1,128}"
Name = Annotated[StrictStr, Field(pattern=f"^{NAME}$")]
Label = Annotated[StrictStr, Field(max_length=256)]
Tokens = Annotated[list[int], PlainValidator(_tokens)]


class StreamOptions(BaseModel):
    """What a stream tells besides the text."""

    model_config = ConfigDict(extra="forbid")
    include_usage: StrictBool = False
    continuous_usage_stats: StrictBool = False


class Body(BaseModel):
    """Fields of completions and chats alike; null is as good as nothing. Others are in `model_extra` and warned of."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, fields: Any) -> Any:
        return {name: one for name, one in fields.items() if one is not None} if isinstance(fields, dict) else fields

    model: StrictStr | None = None
    max_tokens: StrictInt | None = None
    min_tokens: Annotated[StrictInt, Field(ge=0)] = 0
    temperature: Number | None = None
    top_p: Number | None = None
    top_k: Annotated[StrictInt, Field(ge=-1)] | None = None
    min_p: Number | None = None
    n: Annotated[StrictInt, Field(ge=1, le=MOST_CHOICES)] | None = None
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None
    stop: StrictStr | list[StrictStr] | None = None
    stop_token_ids: Tokens = []
    include_stop_str_in_output: StrictBool = False
    skip_special_tokens: StrictBool = True
    ignore_eos: StrictBool = False
    seed: Annotated[StrictInt, Field(ge=-_INT_64, lt=_INT_64)] | None = None
    logit_bias: dict[StrictStr, Number] | None = None
    presence_penalty: Number | None = None
    frequency_penalty: Number | None = None
    repetition_penalty: Number | None = None
    priority: Annotated[StrictInt, Field(ge=-_INT_32, lt=_INT_32)] = 0
    deadline_ms: Annotated[StrictInt, Field(ge=1, le=_LONGEST_DEADLINE_MS)] | None = None
    tenant: Label = ""
    user: Label = ""
    cache_salt: Annotated[StrictStr, Field(min_length=1, max_length=1024)] | None = None
    return_token_ids: StrictBool = False
    request_id: Name | None = None
    prompt_logprobs: Annotated[StrictInt, Field(ge=0)] | None = None
    return_tokens_as_token_ids: StrictBool = False
    truncate_prompt_tokens: Annotated[StrictInt, Field(ge=-1)] | None = None


class CompletionBody(Body):
    """`POST /v1/completions`."""

    prompt: Annotated[list[str] | list[list[int]], PlainValidator(_prompts)]
    echo: StrictBool = False
    logprobs: Annotated[StrictInt, Field(ge=0)] | None = None
    add_special_tokens: StrictBool = True


class Message(BaseModel):
    """One message of a chat; what else it has is the template's to read."""

    model_config = ConfigDict(extra="allow")
    role: StrictStr
    content: Annotated[str, BeforeValidator(_content)] = ""


def _countable(value: Any) -> Any:
    """Not looked at one by one where there are too many."""
    if isinstance(value, list) and not 1 <= len(value) <= _MOST_MESSAGES:
        raise ValueError(f"{len(value)} messages; give 1..{_MOST_MESSAGES}")
    return value


Messages = Annotated[list[Message], BeforeValidator(_countable)]


class ChatBody(Body):
    """`POST /v1/chat/completions`."""

    messages: Messages
    max_completion_tokens: StrictInt | None = None
    logprobs: StrictBool | None = None
    top_logprobs: Annotated[StrictInt, Field(ge=0)] | None = None


class TokenizeBody(BaseModel):
    """`POST /tokenize`: a text or a chat."""

    model_config = ConfigDict(extra="allow")
    model: StrictStr | None = None
    prompt: StrictStr | None = None
    messages: Messages | None = None
    add_special_tokens: StrictBool = True


class DetokenizeBody(BaseModel):
    """`POST /detokenize`."""

    model_config = ConfigDict(extra="allow")
    model: StrictStr | None = None
    tokens: Tokens
