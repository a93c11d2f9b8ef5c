"""From logits to the next tokens, for all rows of a step at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from backends.cuda.histories import Histories
from backends.cuda.operations import Operations
from backends.cuda.packing import PackedStep
from backends.cuda.penalties import shifted
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

    def __init__(self, rows: RowTable, histories: Histories, operations: Operations, device: torch.device) -> None:
        self._rows, self._histories, self._operations, self._device = rows, histories, operations, device

    def sample(self, packed: PackedStep, logits: Tensor) -> Sampled:
        """A token for each row of `logits` [n, vocab]."""
        slots, rows = packed.slots, self._rows
        early = np.flatnonzero(packed.output_indices + 1 < rows.min_tokens[slots])
        shifting = np.flatnonzero(rows.shifts_scores[slots]).tolist()
        allowed = shifted(packed.sequences, logits, shifting, self._histories) if shifting else logits
        allowed = _without_ends(packed.sequences, allowed, early.tolist()) if len(early) else allowed
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
        wanted = np.flatnonzero(rows.wants_logprobs[slots]).tolist()
        return Sampled(tokens, _logprobs(packed.sequences, wanted, logits, tokens) if wanted else None)

    def _tensor(self, array: NDArray[np.int64] | NDArray[np.float32]) -> Tensor:
        return torch.from_numpy(array).to(self._device)


def _without_ends(sequences: list[Sequence], logits: Tensor, rows: list[int]) -> Tensor:
    """These rows may not end yet, so they cannot sample what would end them."""
    allowed = logits.clone()
    for row in rows:
        sampling_params = sequences[row].request.sampling
        eos = () if sampling_params.ignore_eos else sampling_params.eos_token_ids
        allowed[row, [*eos, *sampling_params.stop_token_ids]] = float("-inf")
    return allowed


def _logprobs(sequences: list[Sequence], rows: list[int], logits: Tensor, tokens: Tensor) -> dict[int, TokenLogprobs]:
    """Of these rows, by request id."""
    counts = [sequences[row].request.sampling.logprobs or 0 for row in rows]
    found = sampling.logprobs(logits[rows], tokens[rows], max(counts))
    columns = (found.chosen, found.rank, found.top_ids, found.top)
    return {
        sequences[row].request_id: TokenLogprobs(chosen, rank, tuple(zip(ids, values, strict=True))[:count])
        for row, count, chosen, rank, ids, values in zip(
            rows, counts, *(column.tolist() for column in columns), strict=True
        )
    }
