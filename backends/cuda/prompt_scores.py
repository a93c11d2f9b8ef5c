"""Log-probabilities of prompts' tokens, from the hidden states of their chunks."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from backends.cuda.histories import Histories
from backends.cuda.model import Model
from backends.cuda.step_inputs import PackedChunk
from kernels import sampling
from schedlab.device import Chunk, PromptLogprobs, TokenLogprobs

# Scores of so many tokens exist at a time: 256 x 128,256 x 4 bytes are 125 MiB.
_AT_A_TIME = 256


def prompt_logprobs(
    chunks: Iterable[Chunk], packed: Iterable[PackedChunk], hidden: Tensor, model: Model, histories: Histories
) -> dict[int, PromptLogprobs] | None:
    """By request id, of the chunks of a step whose requests want them.

    Args:
        packed: where each of the chunks is in `hidden`, [T, hidden].
    """
    found = {}
    for chunk, place in zip(chunks, packed, strict=True):
        if scored := chunk.scored:
            tokens = torch.from_numpy(histories.of(chunk.sequence).known(scored.start + 1, scored.stop + 1))
            num_top = chunk.sequence.request.sampling.prompt_logprobs or 0
            own = hidden[place.first : place.first + len(scored)]
            entries = _entries(own, tokens.to(hidden.device), num_top, model)
            found[chunk.sequence.request_id] = PromptLogprobs(scored.start + 1, entries)
    return found or None


def _entries(hidden: Tensor, tokens: Tensor, num_top: int, model: Model) -> list[TokenLogprobs]:
    entries: list[TokenLogprobs] = []
    for states, following in zip(hidden.split(_AT_A_TIME), tokens.split(_AT_A_TIME), strict=True):
        scores = sampling.logprobs(model.logits(states), following, num_top)
        columns = (scores.chosen, scores.rank, scores.top_ids, scores.top)
        entries += [
            TokenLogprobs(chosen, rank, tuple(zip(ids, values, strict=True)))
            for chosen, rank, ids, values in zip(*(column.tolist() for column in columns), strict=True)
        ]
    return entries
