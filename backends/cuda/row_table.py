"""What the device keeps of each resident sequence, by slot: where its blocks are, how long it is, how it is sampled."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from schedlab.batch import DecodeBatch
from schedlab.memory.blocks import blocks_for
from schedlab.sequence import Sequence

_SEED_BITS = 63


class RowTable:
    """Arrays with one entry per slot, and a row of block ids.

    A decode row's length is its base plus the batch's step, as in DecodeBatch, so a step touches only the rows that got
    a block. `last_tokens` [slots] stay on the device.
    """

    def __init__(self, num_slots: int, max_model_len: int, block_size: int, device: torch.device) -> None:
        self.block_size = block_size
        self.block_tables: NDArray[np.int64] = np.zeros((num_slots, blocks_for(max_model_len, block_size)), np.int64)
        self.base_lengths: NDArray[np.int64] = np.zeros(num_slots, np.int64)
        self.num_prompt_tokens: NDArray[np.int64] = np.zeros(num_slots, np.int64)
        self.temperatures: NDArray[np.float32] = np.zeros(num_slots, np.float32)
        self.top_ks: NDArray[np.int64] = np.zeros(num_slots, np.int64)
        self.top_ps: NDArray[np.float32] = np.ones(num_slots, np.float32)
        self.min_ps: NDArray[np.float32] = np.zeros(num_slots, np.float32)
        self.seeds: NDArray[np.int64] = np.zeros(num_slots, np.int64)
        self.min_tokens: NDArray[np.int64] = np.zeros(num_slots, np.int64)
        self.wants_logprobs: NDArray[np.int64] = np.zeros(num_slots, np.int64)
        self.shifts_scores: NDArray[np.int64] = np.zeros(num_slots, np.int64)
        self.last_tokens: Tensor = torch.zeros(num_slots, dtype=torch.int64, device=device)

    def welcome(self, sequence: Sequence) -> None:
        """Note how a sequence that owns a slot is sampled."""
        slot, sampling = sequence.slot, sequence.request.sampling
        self.num_prompt_tokens[slot] = sequence.num_prompt_tokens
        self.temperatures[slot] = sampling.temperature
        self.top_ks[slot] = sampling.top_k
        self.top_ps[slot] = sampling.top_p
        self.min_ps[slot] = sampling.min_p
        self.seeds[slot] = sampling.seed % (1 << _SEED_BITS)
        self.min_tokens[slot] = sampling.min_tokens
        self.wants_logprobs[slot] = sampling.logprobs is not None
        self.shifts_scores[slot] = sampling.shifts_scores

    def join(self, sequence: Sequence, newest: int) -> None:
        """A sequence is in the decode batch, its newest token not computed yet."""
        self.welcome(sequence)
        slot, table = sequence.slot, sequence.block_table
        self.base_lengths[slot] = sequence.joined_len - sequence.joined_step
        self.block_tables[slot, : len(table)] = table
        self.last_tokens[slot] = newest

    def grow(self, batch: DecodeBatch) -> None:
        """Note the blocks that rows got for the coming step."""
        tables = self.block_tables
        for sequence in batch.growing(0):
            table = sequence.block_table
            tables[sequence.slot, len(table) - 1] = table[-1]

    def move(self, source: int, target: int) -> None:
        """What is kept in slot `source` is kept in `target` from now on."""
        for array in vars(self).values():
            if isinstance(array, np.ndarray | Tensor):
                array[target] = array[source]
