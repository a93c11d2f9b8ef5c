"""The sum of what every admitted sequence may grow to, kept and never recomputed (scheduler.md 3.3)."""

from __future__ import annotations

from collections import Counter
from heapq import heappop, heappush

from schedlab.sequence import Sequence


class CommitmentLedger:
    """Blocks committed to sequences, in total.

    A sequence with k known tokens commits floor(min(k + watermark, end) / block size) + 1 blocks, `end` being the most
    tokens it may reach. While it decodes, k grows by one an iteration: the ledger counts growing sequences by the
    residue that decides when their commitment gains a block, so that it advances in O(block size) for any number of
    iterations. With an unlimited watermark nothing grows.
    """

    __slots__ = ("_block_size", "_growing", "_held", "_residues", "_settles", "_step", "_watermark", "blocks")

    def __init__(self, block_size: int, watermark_tokens: int) -> None:
        self._block_size = block_size
        self._watermark = watermark_tokens
        self._step = 0
        self._residues = [0] * block_size
        self._settles: list[tuple[int, int, int]] = []
        # Per sequence: (known + watermark - step) while growing, with the step at which it reaches its end.
        self._growing: dict[int, tuple[int, int]] = {}
        self._held: Counter[int] = Counter()
        self.blocks = 0

    def blocks_of(self, known_tokens: int, end_tokens: int) -> int:
        """Commitment of a sequence with `known_tokens`, that may reach `end_tokens`."""
        tokens = end_tokens if self._watermark < 0 else min(known_tokens + self._watermark, end_tokens)
        return tokens // self._block_size + 1

    def held_by(self, sequence: Sequence) -> int:
        """Blocks that `sequence` commits now."""
        entry = self._growing.get(sequence.request_id)
        if entry is not None:
            return (entry[0] + self._step) // self._block_size + 1
        return self._held[sequence.request_id]

    def holds(self, sequence: Sequence) -> bool:
        """Has the sequence a commitment?"""
        return sequence.request_id in self._held

    def add(self, sequence: Sequence) -> None:
        """A sequence was admitted; it does not grow until it decodes."""
        blocks = self.blocks_of(sequence.num_known, end_tokens(sequence))
        self._held[sequence.request_id] = blocks
        self.blocks += blocks

    def remove(self, sequence: Sequence) -> None:
        """The sequence has ended."""
        self.stop_growing(sequence)
        self.blocks -= self._held.pop(sequence.request_id)

    def start_growing(self, sequence: Sequence) -> None:
        """The sequence has joined the decode batch with its outputs so far."""
        if self._watermark < 0:
            return
        self._set(sequence.request_id, self.blocks_of(sequence.num_known, end_tokens(sequence)))
        base = sequence.num_known + self._watermark - self._step
        settled_step = end_tokens(sequence) - sequence.num_known - self._watermark + self._step
        if settled_step > self._step:
            self._growing[sequence.request_id] = (base, settled_step)
            self._residues[base % self._block_size] += 1
            heappush(self._settles, (settled_step, sequence.request_id, base))

    def stop_growing(self, sequence: Sequence) -> None:
        """The sequence has left the decode batch; it keeps the commitment it has grown to."""
        entry = self._growing.pop(sequence.request_id, None)
        if entry is not None:
            self._settle(sequence.request_id, entry[0], self._step)

    def advance(self, iterations: int) -> None:
        """The decode batch has done `iterations` iterations."""
        end = self._step + iterations
        while self._settles and self._settles[0][0] <= end:
            step, request_id, base = heappop(self._settles)
            if self._growing.get(request_id) == (base, step):
                self._run_to(step)
                del self._growing[request_id]
                self._settle(request_id, base, step)
        self._run_to(end)

    def _run_to(self, step: int) -> None:
        cycles, rest = divmod(step - self._step, self._block_size)
        gained = cycles * len(self._growing)
        for ahead in range(1, rest + 1):
            gained += self._residues[-(self._step + ahead) % self._block_size]
        self.blocks += gained
        self._step = step

    def _settle(self, request_id: int, base: int, step: int) -> None:
        self._residues[base % self._block_size] -= 1
        self._held[request_id] = (base + step) // self._block_size + 1

    def _set(self, request_id: int, blocks: int) -> None:
        self.blocks += blocks - self._held[request_id]
        self._held[request_id] = blocks


def end_tokens(sequence: Sequence) -> int:
    """The most tokens that a sequence may come to."""
    return sequence.num_prompt_tokens + sequence.max_outputs
