"""Tokens to text as they come: whole characters only, and nothing that may still become a stop string."""

from __future__ import annotations

from codecs import getincrementaldecoder
from typing import NamedTuple

from schedlab.serve.tokenizer import Tokenizer

_Utf8 = getincrementaldecoder("utf-8")


class StopRule(NamedTuple):
    """Strings that end an output, from its `min_tokens`-th token on; the text is cut before them, or behind."""

    strings: tuple[str, ...] = ()
    include: bool = False
    min_tokens: int = 0


NO_STOPS = StopRule()


class OutputText:
    """The text of one output.

    Attributes:
        matched: the stop string that ended it; nothing is taken in after that.
    """

    __slots__ = (
        "_decoder",
        "_from",
        "_held",
        "_longest",
        "_num_tokens",
        "_rule",
        "_skip_special",
        "_tokenizer",
        "matched",
    )

    def __init__(self, tokenizer: Tokenizer, rule: StopRule = NO_STOPS, *, skip_special: bool = True) -> None:
        self._tokenizer = tokenizer
        self._rule = rule
        self._skip_special = skip_special
        self._decoder = _Utf8("replace")
        self._longest = max(map(len, rule.strings), default=0)
        self._held = ""
        # Stop strings may begin from here on in what is held.
        self._from = 0
        self._num_tokens = 0
        self.matched: str | None = None

    def feed(self, token: int) -> None:
        """Take in the newest token."""
        self._num_tokens += 1
        if self.matched is not None or (self._skip_special and self._tokenizer.is_special(token)):
            return
        self._held += self._decoder.decode(self._tokenizer.token_bytes(token))
        if self._longest:
            self._search()

    def take(self) -> str:
        """Text that is certain since the last call."""
        keep = 0 if self.matched is not None else self._undecided()
        return self._release(len(self._held) - keep)

    def take_rest(self) -> str:
        """The output has ended: everything else."""
        if self.matched is None:
            self._held += self._decoder.decode(b"", final=True)
        return self._release(len(self._held))

    def _search(self) -> None:
        if self._num_tokens < self._rule.min_tokens:
            self._from = len(self._held)
            return
        found = [
            (at + len(stop), at, stop) for stop in self._rule.strings if (at := self._held.find(stop, self._from)) >= 0
        ]
        if found:
            end, start, self.matched = min(found)
            self._held = self._held[: end if self._rule.include else start]

    def _undecided(self) -> int:
        """Characters at the end of what is held with which a stop string may begin."""
        most = min(self._longest - 1, len(self._held) - self._from)
        for count in range(most, 0, -1):
            if any(stop.startswith(self._held[-count:]) for stop in self._rule.strings):
                return count
        return 0

    def _release(self, count: int) -> str:
        text, self._held = self._held[:count], self._held[count:]
        self._from = max(self._from - count, 0)
        return text


class TextStops:
    """Stop strings as the scheduler sees them: an output's own text, which is read and thrown away."""

    __slots__ = ("_text",)

    def __init__(self, tokenizer: Tokenizer, rule: StopRule, *, skip_special: bool) -> None:
        self._text = OutputText(tokenizer, rule, skip_special=skip_special)

    def feed(self, token: int) -> bool:
        """True if the text has a stop string now."""
        self._text.feed(token)
        self._text.take()
        return self._text.matched is not None
