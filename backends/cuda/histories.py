"""The tokens of each live request: its prompt and what was sampled, which is what a prefill may have to compute."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from schedlab.errors import UsageError
from schedlab.request import Prompt
from schedlab.sequence import Sequence
from schedlab.token_keys import chained_keys

Tokens = NDArray[np.int64]


class History:
    """Known tokens of one request: its prompt, and what was sampled since.

    `script` are outputs that are known before; more may follow.
    """

    __slots__ = ("_keys", "outputs", "prompt", "script")

    def __init__(self, prompt: Tokens, script: Tokens) -> None:
        self.prompt, self.script = prompt, script
        self.outputs: list[int] = []
        self._keys: tuple[int, list[int]] = (0, [])

    def known(self, start: int, end: int) -> Tokens:
        """Tokens at positions `start` .. `end - 1`."""
        num_prompt_tokens = len(self.prompt)
        assert end <= num_prompt_tokens + len(self.outputs)
        if end <= num_prompt_tokens:
            return self.prompt[start:end]
        outputs = self.outputs[max(0, start - num_prompt_tokens) : end - num_prompt_tokens]
        return np.concatenate((self.prompt[start:], np.asarray(outputs, np.int64)))

    def keys(self, first: int, last: int, block_size: int) -> list[int]:
        """Chained keys of blocks `first` .. `last - 1`, as far as they are full."""
        size, keys = self._keys
        if size != block_size or len(keys) < last:
            keys = chained_keys([*self.prompt.tolist(), *self.outputs], block_size)
            self._keys = (block_size, keys)
        return keys[first:last]


class Histories:
    """By request id. `vocab` bounds the ids that a prompt may have."""

    def __init__(self, vocab: int) -> None:
        self._vocab = vocab
        self._live: dict[int, History] = {}
        self._following: dict[int, Prompt] = {}

    def expect(self, request_id: int, following: Prompt) -> None:
        """The request and its output are the beginning of that prompt, whatever the model samples."""
        self._following[request_id] = following

    def of(self, sequence: Sequence) -> History:
        """The history of a request; it begins with its prompt."""
        history = self._live.get(sequence.request_id)
        if history is None:
            prompt, request_id = sequence.request.prompt, sequence.request_id
            text = prompt_tokens(self._following.get(request_id, prompt), self._vocab, request_id)
            history = self._live[request_id] = History(text[: prompt.num_tokens], text[prompt.num_tokens :])
        return history

    def append(self, sequences: Iterable[Sequence], tokens: Iterable[int]) -> None:
        """Each of these has sampled one more token, but those that want none."""
        live = self._live
        for sequence, token in zip(sequences, tokens, strict=True):
            if sequence.max_outputs:
                live[sequence.request_id].outputs.append(token)

    def scripted(self, sequences: Iterable[Sequence], indices: NDArray[np.int64], tokens: Tensor) -> Tensor:
        """`tokens` [n] that these sequences sampled as outputs `indices` [n], those of scripts in their places."""
        if not self._following:
            return tokens
        scripts = (self._live[sequence.request_id].script for sequence in sequences)
        known = [
            (row, int(script[index]))
            for row, (script, index) in enumerate(zip(scripts, indices.tolist(), strict=True))
            if index < len(script)
        ]
        if not known:
            return tokens
        rows, values = zip(*known, strict=True)
        told = tokens.clone()
        told[list(rows)] = torch.tensor(values, device=tokens.device)
        return told

    def forget(self, request_id: int) -> None:
        self._live.pop(request_id, None)
        self._following.pop(request_id, None)


def prompt_tokens(prompt: Prompt, vocab: int, request_id: int) -> Tokens:
    """The prompt's own tokens, or made-up ones that are equal exactly where a trace says that prompts are.

    Raises UsageError for a token outside of the vocabulary.
    """
    if prompt.token_ids is None:
        return _made_up(prompt, vocab, request_id)
    tokens = np.asarray(prompt.token_ids, np.int64)
    if tokens.min() < 0 or tokens.max() >= vocab:
        wrong = next(token for token in prompt.token_ids if not 0 <= token < vocab)
        raise UsageError(f"request {request_id}: token {wrong} is not in the vocabulary of {vocab} tokens")
    return tokens


def _made_up(prompt: Prompt, vocab: int, request_id: int) -> Tokens:
    """A token follows from its block's id in the trace and its place there, or else from its request."""
    positions = np.arange(prompt.num_tokens, dtype=np.uint64)
    blocks = np.full(prompt.num_tokens, request_id, np.uint64)
    salt = np.ones(prompt.num_tokens, np.uint64)
    if prompt.hash_ids is not None:
        size = prompt.hash_block_tokens
        ids = np.asarray([key % (1 << 64) for key in prompt.hash_ids], np.uint64)
        named = min(prompt.num_tokens, len(ids) * size)
        blocks[:named] = np.repeat(ids, size)[:named]
        positions[:named] %= np.uint64(size)
        salt[:named] = 0
    with np.errstate(over="ignore"):
        bits = (blocks * np.uint64(2) + salt) * np.uint64(0x9E3779B97F4A7C15) + positions * np.uint64(
            0xD1B54A32D192ED03
        )
        bits = (bits ^ (bits >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return np.asarray((bits >> np.uint64(32)) % np.uint64(vocab), np.int64)
