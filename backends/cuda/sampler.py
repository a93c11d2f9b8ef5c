"""From logits to the next tokens, for all rows of a step at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from backends.cuda.operations import Operations
from backends.cuda.packing import PackedStep
from backends.cuda.row_table import RowTable
from kernels import sampling
from schedlab.device import TokenLogprobs
from schedlab.sequence import Sequence


class Sampled(NamedTuple):
    """tokens: [n] int64 on the device; logprobs: of the sequences whose requests want them, by request id."""

    tokens: Tensor
    logprobs: dict[int, TokenLogprobs] | None


class Sampler:
    """Reads each row's parameters from the table. A step of greedy rows costs an argmax."""

    def __init__(self, rows: RowTable, operations: Operations, device: torch.device) -> None:
        self._rows, self._operations, self._device = rows, operations, device

    def sample(self, packed: PackedStep, logits: Tensor) -> Sampled:
        """A token for each row of `logits` [n, vocab]."""
        allowed = _without_early_ends(packed, logits)
        slots, rows = packed.slots, self._rows
        if not rows.temperatures[slots].any():
            tokens = sampling.greedy(allowed)
        else:
            draws = sampling.uniforms(self._tensor(rows.seeds[slots]), self._tensor(packed.output_indices))
            tokens = self._operations.sample(
                allowed,
                self._tensor(rows.temperatures[slots]),
                self._tensor(rows.top_ks[slots]),
                self._tensor(rows.top_ps[slots]),
                self._tensor(rows.min_ps[slots]),
                draws,
            )
        return Sampled(tokens, _logprobs(packed.sequences, logits, tokens))

    def _tensor(self, array: NDArray[np.int64] | NDArray[np.float32]) -> Tensor:
        return torch.from_numpy(array).to(self._device)


def _without_early_ends(packed: PackedStep, logits: Tensor) -> Tensor:
    """Rows that may not end yet cannot sample what would end them."""
    for row, sequence in enumerate(packed.sequences):
        sampling_params = sequence.request.sampling
        if packed.output_indices[row] + 1 < sampling_params.min_tokens:
            eos = () if sampling_params.ignore_eos else sampling_params.eos_token_ids
            ends = [*eos, *sampling_params.stop_token_ids]
            logits = logits.clone()
            logits[row, ends] = float("-inf")
    return logits


def _logprobs(sequences: list[Sequence], logits: Tensor, tokens: Tensor) -> dict[int, TokenLogprobs] | None:
    wanted = {row: sequence for row, sequence in enumerate(sequences) if sequence.request.sampling.logprobs is not None}
    if not wanted:
        return None
    rows = list(wanted)
    most = max(sequence.request.sampling.logprobs or 0 for sequence in wanted.values())
    found = sampling.logprobs(logits[rows], tokens[rows], most)
    columns = zip(
        wanted.values(),
        found.chosen.tolist(),
        found.rank.tolist(),
        found.top_ids.tolist(),
        found.top.tolist(),
        strict=True,
    )
    return {
        sequence.request_id: TokenLogprobs(
            chosen, rank, tuple(zip(ids, values, strict=True))[: sequence.request.sampling.logprobs]
        )
        for sequence, chosen, rank, ids, values in columns
    }
