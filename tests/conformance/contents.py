"""What lies in each physical block: the check that makes "output equals the solo run" mean something without a model.

A sequence writes the key and value of each of its tokens to the place that its block table names and reads all of them
back at every step. Each must depend on the tokens up to its own and on nothing else. If each read finds exactly that,
complete and in place, any model would give the tokens that it gives to the same request alone; a stale, lost or
misplaced block, one that is shared by texts that differ, or one whose copy has not ended is found at the step that
reads it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import NamedTuple

from schedlab.config import SchedulerConfig
from schedlab.device import CopyKind, CopyOp
from schedlab.memory.blocks import blocks_for
from schedlab.sequence import Sequence
from tests.conformance.scenario import Ask


class Beginnings:
    """Names the first n tokens of a sequence: two that have one name have the same tokens and the same namespace."""

    def __init__(self, asks: Iterable[Ask], per_tenant: bool) -> None:
        everyone = list(asks)
        named = {ask.name: ask for ask in everyone}
        self._ids = {id(ask.request): _ids(named[ask.then] if ask.then else ask) for ask in everyone}
        self._per_tenant = per_tenant

    def name(self, sequence: Sequence, tokens: int) -> Hashable:
        """The name of the first `tokens` tokens; whatever a text does not say is the sequence's own."""
        request = sequence.request
        ids = self._ids[id(request)]
        if tokens > len(ids):
            return id(request), tokens
        return request.adapter, request.cache_salt, request.tenant if self._per_tenant else "", ids[tokens - 1]


class Content(NamedTuple):
    """A block holds `tokens` tokens, the last of the beginning called `name`."""

    name: Hashable
    tokens: int


class BlockContents:
    """What each physical block holds, what each image holds, and until when copies read and fill them."""

    def __init__(self, config: SchedulerConfig, asks: Iterable[Ask]) -> None:
        self._block_size = config.block_size
        self._beginnings = Beginnings(asks, config.cache_per_tenant)
        self._contents: dict[int, Content | None] = {}
        self._images: dict[int, list[Content | None]] = {}
        # In quanta: when the newest copy of an image ends; until when a block is read, and filled, by a copy.
        self._image_ready: dict[int, int] = {}
        self._read_until: dict[int, int] = {}
        self._filled_at: dict[int, int] = {}

    def copied(self, op: CopyOp, start: int, end: int) -> None:
        """A copy has its place on a link; what it does to blocks and images is done at once, and checked by time."""
        image = op.request_id
        if op.kind is CopyKind.DEVICE_TO_HOST:
            self._images[image] = [self._contents.get(block) for block in op.blocks]
            for block in op.blocks:
                assert start >= self._filled_at.get(block, 0), f"block {block} is saved before it is there"
                self._read_until[block] = max(end, self._read_until.get(block, 0))
        else:
            assert start >= self._image_ready[image], f"{op.kind} of image {image} begins before its last copy ends"
        if op.kind is CopyKind.HOST_TO_DEVICE:
            for block, content in zip(op.blocks, self._images.pop(image), strict=True):
                assert start >= self._read_until.get(block, 0), f"block {block} is filled while a copy reads it"
                self._contents[block] = content
                self._filled_at[block] = end
        self._image_ready[image] = end

    def write(self, sequence: Sequence, start: int, count: int, step_start: int) -> None:
        """Tokens `start` .. `start + count - 1` are computed; each lands behind the one before."""
        position, end = start, start + count
        while position < end:
            index, offset = divmod(position, self._block_size)
            block = sequence.block_table[index]
            taken = min(self._block_size - offset, end - position)
            if offset:
                self._expect(block, sequence, index, offset)
            position += taken
            assert step_start >= self._read_until.get(block, 0), f"{sequence} writes {block} while a copy reads it"
            assert step_start >= self._filled_at.get(block, 0), f"{sequence} writes {block} while a copy fills it"
            self._contents[block] = Content(self._beginnings.name(sequence, position), offset + taken)

    def read(self, sequence: Sequence, tokens: int, step_start: int) -> None:
        """Attention looks at the first `tokens` tokens through the table."""
        needed = blocks_for(tokens, self._block_size)
        assert len(sequence.block_table) == needed, f"{sequence} holds {len(sequence.block_table)}, needs {needed}"
        for index, block in enumerate(sequence.block_table):
            self._expect(block, sequence, index, min(self._block_size, tokens - index * self._block_size))
            assert step_start >= self._filled_at.get(block, 0), f"{sequence} reads {block} before it is there"

    def _expect(self, block: int, sequence: Sequence, index: int, tokens: int) -> None:
        wanted = Content(self._beginnings.name(sequence, index * self._block_size + tokens), tokens)
        found = self._contents.get(block)
        assert found == wanted, f"block {block} holds {found}, {sequence} expects {wanted} in its {index}th"


def _ids(ask: Ask) -> tuple[int, ...]:
    prompt = ask.request.prompt
    if prompt.hash_ids is None:
        return ()
    assert prompt.hash_block_tokens == 1, "texts of scenarios have an id for each token"
    return prompt.hash_ids
