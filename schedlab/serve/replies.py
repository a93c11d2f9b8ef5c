"""The JSON of answers: whole ones, and the events of a stream from a template."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from json.encoder import encode_basestring_ascii as quoted
from typing import Any
from uuid import uuid4

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


class Reply:
    """One answer's documents. `kind` and `chunk_kind` are OpenAI's names of whole answers and of events."""

    kind = chunk_kind = "text_completion"
    id_prefix = "cmpl"

    def __init__(
        self, model: str, tokenizer: Tokenizer, usage: Usage, *, logprobs: int | None, token_ids: bool
    ) -> None:
        self.id = f"{self.id_prefix}-{uuid4().hex}"
        self.created = int(time.time())
        self.model = model
        self.usage = usage
        self._tokenizer = tokenizer
        self._logprobs = logprobs
        self._token_ids = token_ids
        head = {"id": self.id, "object": self.chunk_kind, "created": self.created, "model": model}
        self._head = f"data: {json.dumps(head)[:-1]}, "

    def opening(self, choices: Sequence[Choice]) -> list[bytes]:
        """Events before anything was computed."""
        return [
            self._event(self._choice(choice.index, choice.prompt_text, "null", Delta("", [], None, None)))
            for choice in choices
            if choice.prompt_text
        ]

    def event(self, choice: Choice, delta: Delta, *, with_usage: bool) -> bytes | None:
        """The event of what is new; None if a client could not tell it from nothing."""
        if not (
            delta.text or delta.finish_reason or (delta.pieces and (self._logprobs is not None or self._token_ids))
        ):
            return None
        logprobs = "null" if self._logprobs is None else json.dumps(self._logprobs_of(delta.pieces))
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
        return json.dumps(document).encode()

    def _event(self, choice: str, *, with_usage: bool = False) -> bytes:
        usage = f', "usage": {json.dumps(self.usage())}' if with_usage else ""
        return f'{self._head}"choices": [{choice}]{usage}}}\n\n'.encode()

    def _choice(self, index: int, text: str, logprobs: str, delta: Delta) -> str:
        return f'{{"index": {index}, "text": {quoted(text)}, "logprobs": {logprobs}, {self._ending(delta)}}}'

    def _ending(self, delta: Delta) -> str:
        ids = f', "token_ids": {[piece.token for piece in delta.pieces]}' if self._token_ids else ""
        if delta.finish_reason is None:
            return f'"finish_reason": null, "stop_reason": null{ids}'
        finish, stop = json.dumps(delta.finish_reason), json.dumps(delta.stop_reason)
        return f'"finish_reason": {finish}, "stop_reason": {stop}{ids}'

    def _whole_choice(self, choice: Choice, delta: Delta) -> dict[str, Any]:
        logprobs = None if self._logprobs is None else self._logprobs_of(delta.pieces)
        made: dict[str, Any] = {"index": choice.index, "text": choice.prompt_text + delta.text, "logprobs": logprobs}
        return {**made, **self._whole_ending(choice, delta)}

    def _whole_ending(self, choice: Choice, delta: Delta) -> dict[str, Any]:
        ending: dict[str, Any] = {"finish_reason": delta.finish_reason, "stop_reason": delta.stop_reason}
        if self._token_ids:
            ending["token_ids"] = [piece.token for piece in delta.pieces]
            ending["prompt_token_ids"] = list(choice.request.prompt.token_ids or ())
        return ending

    def _logprobs_of(self, pieces: list[Piece]) -> Any:
        known = [(piece, piece.logprobs) for piece in pieces if piece.logprobs is not None]
        return {
            "tokens": [self._word(piece.token) for piece, _ in known],
            "token_logprobs": [logprobs.logprob for _, logprobs in known],
            "top_logprobs": [{self._word(token): value for token, value in logprobs.top} for _, logprobs in known],
            "text_offset": [piece.text_offset for piece, _ in known],
        }

    def _word(self, token: int) -> str:
        return self._tokenizer.token_bytes(token).decode(errors="replace")


class ChatReply(Reply):
    """The same of a chat, in its own words."""

    kind, chunk_kind = "chat.completion", "chat.completion.chunk"
    id_prefix = "chatcmpl"

    def opening(self, choices: Sequence[Choice]) -> list[bytes]:
        role = '"delta": {"role": "assistant", "content": ""}, "logprobs": null, "finish_reason": null'
        return [self._event(f'{{"index": {choice.index}, {role}}}') for choice in choices]

    def _choice(self, index: int, text: str, logprobs: str, delta: Delta) -> str:
        content = f'"content": {quoted(text)}' if text else ""
        return f'{{"index": {index}, "delta": {{{content}}}, "logprobs": {logprobs}, {self._ending(delta)}}}'

    def _whole_choice(self, choice: Choice, delta: Delta) -> dict[str, Any]:
        logprobs = None if self._logprobs is None else self._logprobs_of(delta.pieces)
        message = {"role": "assistant", "content": delta.text}
        made: dict[str, Any] = {"index": choice.index, "message": message, "logprobs": logprobs}
        return {**made, **self._whole_ending(choice, delta)}

    def _logprobs_of(self, pieces: list[Piece]) -> Any:
        known = [(piece.token, piece.logprobs) for piece in pieces if piece.logprobs is not None]
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
