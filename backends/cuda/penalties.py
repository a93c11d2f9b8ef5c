"""Scores that a request changes before it samples: penalties on what was said before, and biases of single tokens."""

from __future__ import annotations

import torch
from torch import Tensor

from backends.cuda.histories import Histories
from schedlab.sequence import Sequence


def shifted(sequences: list[Sequence], logits: Tensor, rows: list[int], histories: Histories) -> Tensor:
    """A copy of `logits` [n, vocab] with the changes that the requests of `rows` want."""
    logits = logits.clone()
    for row in rows:
        _shift(logits[row], sequences[row], histories)
    return logits


def _shift(scores: Tensor, sequence: Sequence, histories: Histories) -> None:
    sampling = sequence.request.sampling
    history = histories.of(sequence)
    outputs = torch.tensor(history.outputs, dtype=torch.int64, device=scores.device)
    if sampling.repetition_penalty != 1:
        said = torch.cat((torch.tensor(history.prompt, device=scores.device), outputs)).unique()
        old = scores[said]
        scores[said] = torch.where(old > 0, old / sampling.repetition_penalty, old * sampling.repetition_penalty)
    if sampling.presence_penalty or sampling.frequency_penalty:
        tokens, counts = outputs.unique(return_counts=True)
        scores[tokens] -= sampling.presence_penalty + sampling.frequency_penalty * counts.to(scores.dtype)
    if sampling.logit_bias:
        ids, biases = zip(*sampling.logit_bias, strict=True)
        scores[list(ids)] += torch.tensor(biases, dtype=scores.dtype, device=scores.device)
