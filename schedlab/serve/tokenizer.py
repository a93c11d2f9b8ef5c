"""What the server must know of a tokenizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Tokenizer(Protocol):
    """Text to tokens and, token by token, back to bytes.

    Attributes:
        vocab: ids are 0 .. vocab - 1.
        eos_token_ids: ids that end an output.
        longest_token_bytes: no token adds more to a text.
    """

    @property
    def vocab(self) -> int: ...

    @property
    def eos_token_ids(self) -> tuple[int, ...]: ...

    @property
    def longest_token_bytes(self) -> int: ...

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Token ids of a text."""
        ...

    def token_bytes(self, token: int) -> bytes:
        """What the token adds to a text; those of a text's tokens, joined, are its UTF-8."""
        ...

    def is_special(self, token: int) -> bool:
        """Is it a mark of the model, no text of its own?"""
        ...

    def chat_prompt(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """Token ids of a chat whose next message is the assistant's; each message has `role` and `content`.

        Raises UsageError for a chat that the model's template refuses.
        """
        ...
