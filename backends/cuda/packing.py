"""A step of the scheduler as the tensors of one forward pass."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from backends.cuda.histories import Histories
from backends.cuda.row_table import RowTable
from backends.cuda.step_inputs import PackedChunk, StepInputs
from schedlab.device import Step
from schedlab.memory.blocks import blocks_for
from schedlab.sequence import Sequence


class PackedStep(NamedTuple):
    """A step's inputs and who samples in it.

    sequences: of each sampled token, in the order of `inputs.sampled`; slots, output_indices: [n] of each of them.
    """

    inputs: StepInputs
    sequences: list[Sequence]
    slots: NDArray[np.int64]
    output_indices: NDArray[np.int64]


class Packer:
    """Makes the inputs of each step from the rows' table and the requests' tokens."""

    def __init__(self, rows: RowTable, histories: Histories, device: torch.device) -> None:
        self._rows, self._histories, self._device = rows, histories, device

    def pack(self, step: Step) -> PackedStep:
        """Every chunk's and row's blocks are in their tables; the rows that have just joined are noted."""
        chunk_arrays, chunks, chunk_samples = self._chunks(step)
        num_chunk_tokens = sum(chunk.num_tokens for chunk in chunks)
        sequences = list(step.decode.rows) if step.decode is not None else []
        row_slots = np.fromiter((sequence.slot for sequence in sequences), np.int64, len(sequences))
        lengths = self._rows.base_lengths[row_slots] + (step.decode.step + 1 if step.decode is not None else 0)
        longest = int(lengths.max()) if sequences else 0
        tables = self._rows.block_tables[row_slots, : blocks_for(longest, self._rows.block_size)]
        arrays = [(np.zeros(len(sequences), np.int64), lengths - 1, self._slots(tables, lengths - 1))]
        token_ids, positions, slots = (
            self._to_device(np.concatenate(parts)) for parts in zip(*chunk_arrays, *arrays, strict=True)
        )
        if sequences:
            token_ids[num_chunk_tokens:] = self._rows.last_tokens[self._to_device(row_slots)]
        sampled_chunks = [sequence for sequence, _ in chunk_samples]
        sampled = [*(at for _, at in chunk_samples), *range(num_chunk_tokens, num_chunk_tokens + len(sequences))]
        inputs = StepInputs(
            token_ids,
            positions,
            slots,
            tuple(chunks),
            self._to_device(tables),
            self._to_device(lengths),
            longest,
            self._to_device(np.asarray(sampled, np.int64)),
        )
        chunk_slots = [sequence.slot for sequence in sampled_chunks]
        chunk_outputs = [sequence.num_outputs for sequence in sampled_chunks]
        return PackedStep(
            inputs,
            sampled_chunks + sequences,
            np.concatenate((np.asarray(chunk_slots, np.int64), row_slots)),
            np.concatenate((np.asarray(chunk_outputs, np.int64), lengths - self._rows.num_prompt_tokens[row_slots])),
        )

    def _chunks(
        self, step: Step
    ) -> tuple[list[tuple[NDArray[np.int64], ...]], list[PackedChunk], list[tuple[Sequence, int]]]:
        """Token ids, positions and slots of each chunk, the chunks, and who samples at which token."""
        arrays: list[tuple[NDArray[np.int64], ...]] = []
        chunks, samples, first = [], [], 0
        for sequence, start, count, is_last in step.chunks:
            positions = np.arange(start, start + count)
            table = np.asarray(sequence.block_table[: blocks_for(start + count, self._rows.block_size)], np.int64)
            tokens = self._histories.of(sequence).known(start, start + count)
            arrays.append((tokens, positions, self._slots(np.broadcast_to(table, (count, len(table))), positions)))
            chunks.append(PackedChunk(first, count, start, self._to_device(table)))
            first += count
            if is_last:
                samples.append((sequence, first - 1))
        return arrays, chunks, samples

    def _slots(self, tables: NDArray[np.int64], positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """The slot of one position in each of the tables."""
        size = self._rows.block_size
        blocks = np.take_along_axis(tables, (positions // size)[:, None], 1)[:, 0]
        return np.asarray(blocks * size + positions % size)

    def _to_device(self, array: NDArray[np.int64]) -> Tensor:
        """Through page-locked memory where there is a GPU, so that nothing waits for the copy."""
        tensor = torch.from_numpy(np.ascontiguousarray(array))
        if self._device.type == "cpu":
            return tensor
        return tensor.pin_memory().to(self._device, non_blocking=True)
