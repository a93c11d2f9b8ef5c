"""What the KV cache of a request must hold: a number for every position, summed over any range in constant time.

The value of position p in a stream s is `T(s, p + 1) - T(s, p)` modulo 2^64, T(s, p) being what SplitMix64 (Steele, Lea
and Flood, "Fast splittable pseudorandom number generators", 2014) gives at its p-th step from s. It is arbitrary, it
belongs to its place, and the sum over a range telescopes: what was written in pieces equals what was written at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as List
from hashlib import blake2b
from itertools import accumulate

from schedlab.request import Request

MASK = (1 << 64) - 1
TAIL, OUTPUTS = 1, 2
GOLDEN = 0x9E3779B97F4A7C15


def mixed(number: int) -> int:
    """The finaliser of SplitMix64: 64 bits, each of which depends on all 64 of `number`."""
    number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    number = (number ^ (number >> 27)) * 0x94D049BB133111EB & MASK
    return number ^ (number >> 31)


def digest_of(*numbers: int) -> int:
    """A digest of integers, the same in every process. Tuples of integers hash without chance, but hardly mix."""
    return mixed(hash(numbers) & MASK)


def stream_of(*parts: str) -> int:
    """A stream named by words, the same in every process."""
    return int.from_bytes(blake2b(repr(parts).encode(), digest_size=8).digest())


class Content:
    """The right values of one request, which follow from what it is.

    A block with a key has the stream of its key, so requests with equal keys in one namespace have equal blocks. Behind
    the keys the rest of the prompt and the outputs have streams that no other request has.

    Args:
        output_keys: keys of the blocks behind those of the prompt, as far as the output model knows them.
        namespace: requests that differ in it have no value in common.
    """

    __slots__ = ("_base", "_block_size", "_full", "_keys", "_outputs", "_read", "_sums", "_tail", "num_prompt_tokens")

    def __init__(
        self, request: Request, prompt_keys: List[int], output_keys: List[int], block_size: int, namespace: List[str]
    ) -> None:
        self._base = stream_of(*namespace)
        self._keys = [*prompt_keys, *output_keys]
        self._block_size = block_size
        self._tail = digest_of(self._base, request.request_id, TAIL)
        self._outputs = digest_of(self._base, request.request_id, request.sampling.seed, OUTPUTS)
        self._full: list[int] = []
        self._sums = [0]
        # Of the last read: rows are read when a step ends, and again when the next one begins.
        self._read: tuple[int, list[int], int] = (0, [], 0)
        self.num_prompt_tokens = request.prompt.num_tokens

    def total(self, first: int, last: int, deviation: int = 0) -> int:
        """The sum of positions `first` .. `last - 1`; of other values where what was read deviates."""
        total = 0
        for stream, start, end in self._pieces(first, last):
            if deviation:
                stream = digest_of(stream, deviation)
            total += mixed(stream + end * GOLDEN & MASK) - mixed(stream + start * GOLDEN & MASK)
        return total & MASK

    def sums(self, tokens: int) -> tuple[list[int], int]:
        """The sum of each block's positions among the first `tokens`, and that of all of them."""
        if self._read[0] != tokens:
            full_blocks, rest = divmod(tokens, self._block_size)
            self._fill(full_blocks)
            of_rest = self.total(tokens - rest, tokens) if rest else 0
            digests = self._full[:full_blocks] + ([of_rest] if rest else [])
            self._read = tokens, digests, self._sums[full_blocks] + of_rest & MASK
        return self._read[1:]

    def _fill(self, full_blocks: int) -> None:
        size, known = self._block_size, len(self._full)
        if known < full_blocks:
            new = [self.total(block * size, (block + 1) * size) for block in range(known, full_blocks)]
            self._full += new
            self._sums += list(accumulate(new, initial=self._sums[-1]))[1:]

    def _pieces(self, first: int, last: int) -> Iterator[tuple[int, int, int]]:
        """Ranges of one stream each."""
        size, keys = self._block_size, self._keys
        keyed_tokens = len(keys) * size
        while first < min(last, keyed_tokens):
            block = first // size
            end = min((block + 1) * size, last)
            yield digest_of(self._base, keys[block]), first, end
            first = end
        prompt_end = min(last, self.num_prompt_tokens)
        if first < prompt_end:
            yield self._tail, first, prompt_end
            first = prompt_end
        if first < last:
            yield self._outputs, first, last
