"""The JSON of answers: whole ones, and the events of a stream from a template."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from json.encoder import encode_basestring_ascii as quoted
from typing import Any, NamedTuple
from uuid import uuid4

from schedlab.device import TokenLogprobs
from schedlab.serve.choice import Choice, Delta, Piece
from schedlab.serve.tokenizer import Tokenizer

DONE = b"data: [DONE]\n\n"


class Usage:
    """Token counts of an answer: each prompt once, every output."""

    def __init__(self, choices: Sequence[Choice], copies: int) -> None:
        self._choices = choices
        self._prompt_tokens = sum(choice.request.prompt.num_tokens for choice in choices[::copies])
        self._copies = copies

    def __call__(self) -> dict[str, Any]:
        completion = sum(choice.num_tokens for choice in self._choices)
        firsts = self._choices[:: self._copies]
        cached = sum(choice.ended.num_cached_tokens for choice in firsts if choice.ended is not None)
        return {
            "prompt_tokens": self._prompt_tokens,
            "completion_tokens": completion,
            "total_tokens": self._prompt_tokens + completion,
            "prompt_tokens_details": {"cached_tokens": cached},
        }


class Extras(NamedTuple):
    """What an answer tells of its tokens besides the text; `tokens_as_ids`: names them `token_id:7`."""

    logprobs: bool = False
    prompt_logprobs: bool = False
    token_ids: bool = False
    tokens_as_ids: bool = False


class Reply:
    """One answer's documents. `kind` and `chunk_kind` are OpenAI's names of whole answers and of events."""

    kind = chunk_kind = "text_completion"
    id_prefix = "cmpl"

    def __init__(self, model: str, tokenizer: Tokenizer, usage: Usage, extras: Extras, name: str = "") -> None:
        self.id = f"{self.id_prefix}-{name or uuid4().hex}"
        self.created = int(time.time())
        self.model = model
        self.usage = usage
        self._tokenizer = tokenizer
        self._extras = extras
        self._has_silent_news = extras.logprobs or extras.token_ids
        head = {"id": self.id, "object": self.chunk_kind, "created": self.created, "model": model}
        self._head = f"data: {json.dumps(head)[:-1]}, "

    def opening(self, choice: Choice) -> bytes:
        """What comes before the first event of an output: not sooner, since a client takes it for the first token."""
        return b""

    def event(self, choice: Choice, delta: Delta, *, with_usage: bool) -> bytes | None:
        """The event of what is new; None if a client could not tell it from nothing."""
        if not (delta.text or delta.finish_reason or (delta.pieces and self._has_silent_news)):
            return None
        logprobs = json.dumps(self._logprobs_of(delta)) if self._extras.logprobs else "null"
        return self._event(self._choice(choice.index, delta.text, logprobs, delta), with_usage=with_usage)

    def usage_event(self) -> bytes:
        """The event after the last one."""
        return f'{self._head}"choices": [], "usage": {json.dumps(self.usage())}}}\n\n'.encode()

    def whole(self, choices: Sequence[tuple[Choice, Delta]]) -> bytes:
        """The answer to a client that does not stream."""
        document = {
            "id": self.id,
            "object": self.kind,
            "created": self.created,
            "model": self.model,
            "choices": [self._whole_choice(choice, delta) for choice, delta in choices],
            "usage": self.usage(),
        }
        return json.dumps({**document, **self._facts_of_prompt(choices[0][0])}).encode()

    def _event(self, choice: str, *, with_usage: bool = False) -> bytes:
        usage = f', "usage": {json.dumps(self.usage())}' if with_usage else ""
        return f'{self._head}"choices": [{choice}]{usage}}}\n\n'.encode()

    def _choice(self, index: int, text: str, logprobs: str, delta: Delta) -> str:
        return f'{{"index": {index}, "text": {quoted(text)}, "logprobs": {logprobs}, {self._ending(delta)}}}'

    def _ending(self, delta: Delta) -> str:
        ids = f', "token_ids": {[piece.token for piece in delta.pieces]}' if self._extras.token_ids else ""
        if delta.finish_reason is None:
            return f'"finish_reason": null, "stop_reason": null{ids}'
        finish, stop = json.dumps(delta.finish_reason), json.dumps(delta.stop_reason)
        return f'"finish_reason": {finish}, "stop_reason": {stop}{ids}'

    def _whole_choice(self, choice: Choice, delta: Delta) -> dict[str, Any]:
        made = {"index": choice.index, "text": delta.text, "logprobs": self._whole_logprobs(delta)}
        return {**made, **self._whole_ending(choice, delta), **self._scores_of_prompt(choice)}

    def _facts_of_prompt(self, choice: Choice) -> dict[str, Any]:
        """What stands beside the choices: nothing where each may have a prompt of its own."""
        return {}

    def _whole_ending(self, choice: Choice, delta: Delta) -> dict[str, Any]:
        ending: dict[str, Any] = {"finish_reason": delta.finish_reason, "stop_reason": delta.stop_reason}
        if self._extras.token_ids:
            ending["token_ids"] = [piece.token for piece in delta.pieces]
            ending["prompt_token_ids"] = list(choice.request.prompt.token_ids or ())
        return ending

    def _whole_logprobs(self, delta: Delta) -> Any:
        return self._logprobs_of(delta) if self._extras.logprobs else None

    def _scores_of_prompt(self, choice: Choice) -> dict[str, Any]:
        if not self._extras.prompt_logprobs:
            return {}
        scores = [None if one is None else self._ranked(token, one) for token, one in choice.prompt_scores]
        return {"prompt_logprobs": scores}

    def _ranked(self, token: int, logprobs: TokenLogprobs) -> dict[str, Any]:
        """The likeliest tokens by id, as vLLM has them, and the prompt's own."""
        ranked = [(top, value, rank) for rank, (top, value) in enumerate(logprobs.top, 1)]
        return {
            str(one): {"logprob": value, "rank": rank, "decoded_token": self._word(one)}
            for one, value, rank in [*ranked, (token, logprobs.logprob, logprobs.rank)]
        }

    def _logprobs_of(self, delta: Delta) -> Any:
        pieces = delta.echoed + delta.pieces
        return {
            "tokens": [self._word(piece.token) for piece in pieces],
            "token_logprobs": [None if piece.logprobs is None else piece.logprobs.logprob for piece in pieces],
            "top_logprobs": [self._top_of(piece) for piece in pieces],
            "text_offset": [piece.text_offset for piece in pieces],
        }

    def _top_of(self, piece: Piece) -> dict[str, float] | None:
        """The likeliest tokens, and the piece's own even if it is none of them."""
        if piece.logprobs is None:
            return None
        top = {self._word(token): value for token, value in piece.logprobs.top}
        top.setdefault(self._word(piece.token), piece.logprobs.logprob)
        return top

    def _word(self, token: int) -> str:
        if self._extras.tokens_as_ids:
            return f"token_id:{token}"
        return self._tokenizer.token_bytes(token).decode(errors="replace")


class ChatReply(Reply):
    """The same of a chat, in its own words."""

    kind, chunk_kind = "chat.completion", "chat.completion.chunk"
    id_prefix = "chatcmpl"

    def opening(self, choice: Choice) -> bytes:
        role = '"delta": {"role": "assistant", "content": ""}, "logprobs": null, "finish_reason": null'
        return self._event(f'{{"index": {choice.index}, {role}}}')

    def _choice(self, index: int, text: str, logprobs: str, delta: Delta) -> str:
        content = f'"content": {quoted(text)}' if text else ""
        return f'{{"index": {index}, "delta": {{{content}}}, "logprobs": {logprobs}, {self._ending(delta)}}}'

    def _whole_choice(self, choice: Choice, delta: Delta) -> dict[str, Any]:
        message = {"role": "assistant", "content": delta.text}
        made = {"index": choice.index, "message": message, "logprobs": self._whole_logprobs(delta)}
        return {**made, **self._whole_ending(choice, delta)}

    def _facts_of_prompt(self, choice: Choice) -> dict[str, Any]:
        return self._scores_of_prompt(choice)

    def _logprobs_of(self, delta: Delta) -> Any:
        known = [(piece.token, piece.logprobs) for piece in delta.pieces if piece.logprobs is not None]
        return {
            "content": [
                {
                    **self._entry(token, logprobs.logprob),
                    "top_logprobs": [self._entry(other, value) for other, value in logprobs.top],
                }
                for token, logprobs in known
            ]
        }

    def _entry(self, token: int, logprob: float) -> dict[str, Any]:
        return {"token": self._word(token), "logprob": logprob, "bytes": list(self._tokenizer.token_bytes(token))}
