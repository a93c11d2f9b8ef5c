"""Bodies of requests, as OpenAI names their fields and vLLM its own; `params` gives them their meaning."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

Number = Annotated[float, Field(strict=True)]
Token = Annotated[StrictInt, Field(ge=0)]
# What a client calls its request: short, and fit for a log.
Name = Annotated[StrictStr, Field(pattern=r"^[!-~]{1,128}$")]
MOST_CHOICES = 128


class StreamOptions(BaseModel):
    """What a stream tells besides the text."""

    model_config = ConfigDict(extra="forbid")
    include_usage: StrictBool = False
    continuous_usage_stats: StrictBool = False


class Body(BaseModel):
    """Fields of completions and chats alike. Others are kept in `model_extra` and warned of."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)

    model: StrictStr | None = None
    max_tokens: StrictInt | None = None
    min_tokens: Annotated[StrictInt, Field(ge=0)] = 0
    temperature: Number | None = None
    top_p: Number | None = None
    top_k: StrictInt | None = None
    min_p: Number | None = None
    n: Annotated[StrictInt, Field(ge=1, le=MOST_CHOICES)] | None = None
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None
    stop: StrictStr | list[StrictStr] | None = None
    stop_token_ids: list[Token] | None = None
    include_stop_str_in_output: StrictBool = False
    skip_special_tokens: StrictBool = True
    ignore_eos: StrictBool = False
    seed: StrictInt | None = None
    logit_bias: dict[StrictStr, Number] | None = None
    presence_penalty: Number | None = None
    frequency_penalty: Number | None = None
    repetition_penalty: Number | None = None
    priority: StrictInt = 0
    deadline_ms: Annotated[StrictInt, Field(ge=1)] | None = None
    tenant: StrictStr = ""
    user: StrictStr | None = None
    cache_salt: Annotated[StrictStr, Field(min_length=1)] | None = None
    return_token_ids: StrictBool = False
    request_id: Name | None = None
    prompt_logprobs: Annotated[StrictInt, Field(ge=0)] | None = None
    return_tokens_as_token_ids: StrictBool | None = None
    truncate_prompt_tokens: Annotated[StrictInt, Field(ge=-1)] | None = None


class CompletionBody(Body):
    """`POST /v1/completions`."""

    prompt: StrictStr | list[StrictStr] | list[Token] | list[list[Token]]
    echo: StrictBool = False
    logprobs: Annotated[StrictInt, Field(ge=0)] | None = None
    add_special_tokens: StrictBool = True


class TextPart(BaseModel):
    """A piece of a message; only text is served."""

    type: Literal["text"]
    text: StrictStr


class Message(BaseModel):
    """One message of a chat; what else it has is the template's to read."""

    model_config = ConfigDict(extra="allow")
    role: StrictStr
    content: StrictStr | list[TextPart] | None = None

    def flat(self) -> dict[str, Any]:
        """With its parts joined to one text."""
        parts = self.content
        text = "\n".join(part.text for part in parts) if isinstance(parts, list) else parts or ""
        return {**(self.model_extra or {}), "role": self.role, "content": text}


class ChatBody(Body):
    """`POST /v1/chat/completions`."""

    messages: Annotated[list[Message], Field(min_length=1)]
    max_completion_tokens: StrictInt | None = None
    logprobs: StrictBool | None = None
    top_logprobs: Annotated[StrictInt, Field(ge=0)] | None = None


class TokenizeBody(BaseModel):
    """`POST /tokenize`: a text or a chat."""

    model_config = ConfigDict(extra="allow")
    model: StrictStr | None = None
    prompt: StrictStr | None = None
    messages: list[Message] | None = None
    add_special_tokens: StrictBool = True


class DetokenizeBody(BaseModel):
    """`POST /detokenize`."""

    model_config = ConfigDict(extra="allow")
    model: StrictStr | None = None
    tokens: list[Token]
