"""One output on its way to a client: what has come and was not taken yet is one delta, however slow the client is."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from schedlab.device import PromptLogprobs, TokenLogprobs
from schedlab.request import FinishReason
from schedlab.serve.engine import End
from schedlab.serve.params import Wanted
from schedlab.serve.text import OutputText
from schedlab.serve.tokenizer import Tokenizer

FINISH_WORDS = {
    FinishReason.STOP: "stop",
    FinishReason.LENGTH: "length",
    FinishReason.TIMEOUT: "abort",
    FinishReason.CANCELLED: "abort",
}


class Piece(NamedTuple):
    """A token of the text, where its own begins there, and what its logprobs are; nothing foretells the first one."""

    token: int
    text_offset: int
    logprobs: TokenLogprobs | None


class Delta(NamedTuple):
    """What is new; `finish_reason` is None until the last. The text of the first begins with the `echoed` prompt."""

    text: str
    echoed: list[Piece]
    pieces: list[Piece]
    finish_reason: str | None
    stop_reason: str | int | None


class Choice:
    """A sink of the engine.

    Attributes:
        wake: set when there is something to take; choices of one answer share it.
        ended: how it ended, once it has.

    Args:
        echo: the prompt comes before the output.
    """

    def __init__(
        self,
        index: int,
        wanted: Wanted,
        tokenizer: Tokenizer,
        wake: asyncio.Event,
        *,
        skip_special: bool,
        echo: bool = False,
    ) -> None:
        self.index = index
        self.request = wanted.request
        self.wake = wake
        self.ended: End | None = None
        self.done = False
        self.num_tokens = 0
        self._text = OutputText(tokenizer, wanted.rule, skip_special=skip_special)
        self._include_stop = wanted.rule.include
        self._waiting: list[tuple[int, TokenLogprobs | None]] = []
        self._offset = 0
        self._tokenizer = tokenizer
        self._is_echoed = not echo
        self._prompt_scores: dict[int, TokenLogprobs] = {}
        self._stop_reason: str | int | None = None

    def prompt(self, scores: PromptLogprobs) -> None:
        self._prompt_scores.update(enumerate(scores.entries, scores.first))

    def token(self, token: int, logprobs: TokenLogprobs | None) -> None:
        if self.request.max_tokens:
            self._waiting.append((token, logprobs))
            self.wake.set()

    def end(self, end: End) -> None:
        self.ended = end
        self.wake.set()

    @property
    def has_news(self) -> bool:
        return not self.done and bool(self._waiting or self.ended)

    def take(self) -> Delta:
        """All that is new. After the last one the choice is done."""
        waiting, self._waiting = self._waiting, []
        text, echoed = ("", []) if self._is_echoed else self._echo()
        pieces = []
        for token, logprobs in waiting:
            pieces.append(Piece(token, self._offset + len(text), logprobs))
            self._feed(token)
            text += self._text.take()
        if self.ended is not None:
            self.done = True
            text += self._text.take_rest()
        self._offset += len(text)
        return Delta(text, echoed, pieces, self._finish_reason(), self._reason_of_stop())

    @property
    def prompt_scores(self) -> list[tuple[int, TokenLogprobs | None]]:
        """Tokens of the prompt with their logprobs; the first has none."""
        tokens = self.request.prompt.token_ids or ()
        return [(token, self._prompt_scores.get(position)) for position, token in enumerate(tokens)]

    def _echo(self) -> tuple[str, list[Piece]]:
        """The prompt, special tokens and all, as if it were the beginning of the output."""
        self._is_echoed = True
        text, decoded = "", OutputText(self._tokenizer, skip_special=False)
        pieces = []
        for token, logprobs in self.prompt_scores:
            pieces.append(Piece(token, len(text), logprobs))
            decoded.feed(token)
            text += decoded.take()
        return text + decoded.take_rest(), pieces

    def _feed(self, token: int) -> None:
        self.num_tokens += 1
        sampling = self.request.sampling
        if self.num_tokens >= sampling.min_tokens:
            if token in sampling.stop_token_ids:
                self._stop_reason = token
                if not self._include_stop:
                    return
            elif token in sampling.eos_token_ids and not sampling.ignore_eos:
                return
        self._text.feed(token)

    def _finish_reason(self) -> str | None:
        return None if self.ended is None else FINISH_WORDS.get(self.ended.reason, "error")

    def _reason_of_stop(self) -> str | int | None:
        if self.ended is None:
            return None
        if self.ended.reason is FinishReason.TIMEOUT:
            return "deadline"
        if self.ended.reason is not FinishReason.STOP:
            return None
        return self._text.matched if self._text.matched is not None else self._stop_reason
