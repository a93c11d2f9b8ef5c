"""Where outputs come from: how long each is, or which tokens it has. The scheduler never looks in here."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as List
from typing import Protocol

from schedlab.device import Step
from schedlab.request import Prompt

ENDLESS = 1 << 40


class OutputModel(Protocol):
    """Knows each request's natural output.

    Attributes:
        has_tokens: it gives tokens, so that any iteration may end a row; a device does one iteration a step then.
    """

    has_tokens: bool

    def length(self, request_id: int) -> int:
        """Output tokens at which the request ends of itself; 0 = it ends without a token."""
        ...

    def sample(self, step: Step) -> dict[int, int] | None:
        """The token of each row that samples in `step`, by request id; None from a model without tokens."""
        ...

    def keys(self, request_id: int, first: int, last: int, block_size: int) -> list[int]:
        """Chained keys of blocks `first` .. `last - 1` of prompt and output; fewer where they are not known."""
        ...

    def following(self, request_id: int) -> Prompt | None:
        """A prompt that begins with this request's prompt and output, if one is known."""
        ...

    def forget(self, request_id: int) -> None:
        """The request has ended."""
        ...


class Lengths:
    """Lengths only, as a trace gives them; a length is dropped with its request."""

    __slots__ = ("_following", "_keys", "_lengths")
    has_tokens = False

    def __init__(self) -> None:
        self._lengths: dict[int, int] = {}
        self._following: dict[int, Prompt] = {}
        # Keys of following prompts that were asked for, by request and block size.
        self._keys: dict[int, tuple[int, list[int]]] = {}

    def expect(self, request_id: int, output_tokens: int, following: Prompt | None = None) -> None:
        """The request's output will have `output_tokens` tokens; `following` is the session's next prompt, if known.

        That prompt begins with this one and its output, so it tells the keys of the blocks that the output fills.
        """
        self._lengths[request_id] = output_tokens
        if following is not None:
            self._following[request_id] = following

    def length(self, request_id: int) -> int:
        return self._lengths[request_id]

    def sample(self, step: Step) -> None:
        return None

    def following(self, request_id: int) -> Prompt | None:
        return self._following.get(request_id)

    def forget(self, request_id: int) -> None:
        self._lengths.pop(request_id, None)
        self._following.pop(request_id, None)
        self._keys.pop(request_id, None)

    def keys(self, request_id: int, first: int, last: int, block_size: int) -> list[int]:
        following = self._following.get(request_id)
        if following is None:
            return []
        size, keys = self._keys.get(request_id, (0, []))
        if size != block_size:
            keys = following.block_keys(block_size)
            self._keys[request_id] = (block_size, keys)
        return keys[first:last]


class Script:
    """Given tokens for each request, then a filler for ever; only the scheduler's own rules end an output."""

    __slots__ = ("_filler", "_tokens")
    has_tokens = True

    def __init__(self, tokens: Mapping[int, List[int]], filler: int = 0) -> None:
        self._tokens = tokens
        self._filler = filler

    def length(self, request_id: int) -> int:
        return ENDLESS

    def sample(self, step: Step) -> dict[int, int]:
        sampled = {chunk.sequence: chunk.sequence.num_outputs for chunk in step.chunks if chunk.samples}
        if step.decode is not None:
            sampled |= {sequence: step.decode.outputs(sequence) for sequence in step.decode.rows}
        return {sequence.request_id: self._token(sequence.request_id, index) for sequence, index in sampled.items()}

    def following(self, request_id: int) -> Prompt | None:
        return None

    def forget(self, request_id: int) -> None:
        return None

    def keys(self, request_id: int, first: int, last: int, block_size: int) -> list[int]:
        return []

    def _token(self, request_id: int, index: int) -> int:
        tokens = self._tokens.get(request_id, ())
        return tokens[index] if index < len(tokens) else self._filler
