"""Filler text for a server without a model: seeded three-letter words, and a tokenizer that reads any text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from string import ascii_lowercase
from typing import Any

from backends.sim.outputs import ENDLESS
from schedlab.device import PromptLogprobs, Step, TokenLogprobs
from schedlab.request import Prompt, Request
from schedlab.sequence import Sequence as Live

_BYTES = 256
_LETTERS = len(ascii_lowercase)
# Pieces of one to three lower-case letters, without and with a space before them.
_PIECES = _LETTERS + _LETTERS**2 + _LETTERS**3
EOS = _BYTES + 2 * _PIECES
VOCAB = EOS + 1
_PIECE = re.compile(r" ?[a-z]{1,3}")
_LEAST_OUTPUTS, _MOST_OUTPUTS = 16, 240
_WORDS = [
    "the",
    "and",
    "for",
    "you",
    "not",
    "are",
    "but",
    "all",
    "any",
    "can",
    "had",
    "her",
    "was",
    "one",
    "our",
    "out",
    "day",
    "get",
    "has",
    "him",
    "his",
    "how",
    "man",
    "new",
    "now",
    "old",
    "see",
    "two",
    "way",
    "who",
    "boy",
    "did",
    "its",
    "let",
    "put",
    "say",
    "she",
    "too",
    "use",
    "air",
    "arm",
    "ask",
    "bad",
    "bag",
    "bed",
    "big",
    "box",
    "bus",
    "buy",
    "car",
    "cat",
    "cow",
    "cry",
    "cup",
    "cut",
    "dog",
    "dry",
    "ear",
    "eat",
    "egg",
    "end",
    "eye",
    "far",
    "few",
    "fly",
    "fun",
    "hat",
    "hot",
    "ice",
    "job",
    "key",
    "kid",
    "law",
    "leg",
    "lie",
    "lot",
    "low",
    "map",
    "mix",
    "net",
    "oak",
    "oil",
    "own",
    "pay",
    "pen",
    "pie",
    "pot",
    "ran",
    "red",
    "run",
    "sad",
    "sea",
    "sit",
    "six",
    "sky",
    "son",
    "sun",
    "tea",
    "ten",
    "tie",
    "tip",
    "top",
    "toy",
    "try",
    "van",
    "war",
    "wet",
    "win",
    "yes",
    "yet",
]


class FillerTokenizer:
    """Bytes, and pieces of up to three lower-case letters: about three letters of English a token, and any text."""

    vocab = VOCAB
    eos_token_ids = (EOS,)
    longest_token_bytes = 4

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Token ids of a text; there is no special token to add."""
        tokens: list[int] = []
        at = 0
        for found in _PIECE.finditer(text):
            tokens += text[at : found.start()].encode()
            tokens.append(_piece_id(found[0]))
            at = found.end()
        tokens += text[at:].encode()
        return tokens

    def token_bytes(self, token: int) -> bytes:
        """What the token adds to a text."""
        return _WORD_BYTES.get(token) or self._any_bytes(token)

    def is_special(self, token: int) -> bool:
        return token == EOS

    def chat_prompt(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """A chat as plain text, a line for each message."""
        lines = [f"{message['role']}: {message['content']}\n" for message in messages]
        return self.encode("".join([*lines, "assistant:"]))

    def _any_bytes(self, token: int) -> bytes:
        if token < _BYTES:
            return bytes((token,))
        if token >= EOS:
            return b""
        space, number = divmod(token - _BYTES, _PIECES)
        return b" " * space + _piece_text(number).encode()


def _piece_id(piece: str) -> int:
    letters = piece.lstrip(" ")
    number = 0
    for letter in letters:
        number = number * _LETTERS + ord(letter) - ord("a")
    shorter = (0, _LETTERS, _LETTERS + _LETTERS**2)[len(letters) - 1]
    return _BYTES + _PIECES * (len(piece) > len(letters)) + shorter + number


def _piece_text(number: int) -> str:
    length = 1
    while number >= _LETTERS**length:
        number -= _LETTERS**length
        length += 1
    letters = ""
    for _ in range(length):
        number, letter = divmod(number, _LETTERS)
        letters = ascii_lowercase[letter] + letters
    return letters


WORD_TOKENS = tuple(_piece_id(f" {word}") for word in _WORDS)
_WORD_BYTES = {token: f" {word}".encode() for token, word in zip(WORD_TOKENS, _WORDS, strict=True)}


class Filler:
    """Words by (request seed, output index), and an end after a seeded number of them unless the request forbids it."""

    has_tokens = True

    def length(self, request_id: int) -> int:
        return ENDLESS

    def sample(self, step: Step) -> dict[int, int]:
        return {sequence.request_id: token_of(sequence.request, index) for sequence, index in sampling(step)}

    def logprobs(self, step: Step) -> dict[int, TokenLogprobs] | None:
        """Made up like the words, for the requests that want them."""
        found = {}
        for sequence, index in sampling(step):
            wanted = sequence.request.sampling.logprobs
            if wanted is not None:
                found[sequence.request_id] = _logprobs(token_of(sequence.request, index), wanted)
        return found or None

    def prompt_logprobs(self, step: Step) -> dict[int, PromptLogprobs] | None:
        """Of the prompts' own tokens."""
        found = {}
        for chunk in step.chunks:
            if scored := chunk.scored:
                request = chunk.sequence.request
                tokens, wanted = request.prompt.token_ids or (), request.sampling.prompt_logprobs or 0
                entries = [_logprobs(tokens[position + 1], wanted) for position in scored]
                found[request.request_id] = PromptLogprobs(scored.start + 1, entries)
        return found or None

    def keys(self, request_id: int, first: int, last: int, block_size: int) -> list[int]:
        return []

    def following(self, request_id: int) -> Prompt | None:
        return None

    def forget(self, request_id: int) -> None:
        return None


def sampling(step: Step) -> list[tuple[Live, int]]:
    """Who samples in a step, with the index of the output."""
    found = [(chunk.sequence, chunk.sequence.num_outputs) for chunk in step.chunks if chunk.samples]
    if step.decode is not None:
        found += [(sequence, step.decode.outputs(sequence)) for sequence in step.decode.rows]
    return found


def token_of(request: Request, index: int) -> int:
    """Output number `index` of a request."""
    sampling = request.sampling
    if not sampling.ignore_eos and sampling.eos_token_ids:
        natural = _LEAST_OUTPUTS + _chance(sampling.seed, -1) % (_MOST_OUTPUTS - _LEAST_OUTPUTS)
        if index >= max(natural, sampling.min_tokens):
            return EOS
    return WORD_TOKENS[_chance(sampling.seed, index) % len(WORD_TOKENS)]


def _logprobs(token: int, wanted: int) -> TokenLogprobs:
    """The token itself is the likeliest; each next one half as likely."""
    first = WORD_TOKENS.index(token) if token in WORD_TOKENS else 0
    others = [WORD_TOKENS[(first + 1 + n) % len(WORD_TOKENS)] for n in range(max(wanted - 1, 0))]
    ln_half = -0.6931471805599453
    top = tuple((each, ln_half * (n + 1)) for n, each in enumerate([token, *others][:wanted]))
    return TokenLogprobs(ln_half, 1, top)


def _chance(seed: int, index: int) -> int:
    digest = blake2b(f"{seed} {index}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")
