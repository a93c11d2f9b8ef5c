"""Scores that a request changes: for its own row only, by what it has said before."""

from __future__ import annotations

from typing import Any

from tests.torch_needed import torch  # isort: skip

from backends.cuda.histories import Histories
from backends.cuda.penalties import shifted
from schedlab.request import Prompt, Request, SamplingParams
from schedlab.sequence import Sequence

LOGITS = [1.0, 2.0, -1.0, 0.5]


def scores(outputs: list[int], **sampling: Any) -> list[float]:
    """Of a request with the prompt 0 2 behind those outputs; beside it stands one that wants nothing."""
    histories = Histories(4)
    plain = Sequence(Request(1, Prompt.of_tokens([1]), 9), 0, 9)
    own = Sequence(Request(2, Prompt.of_tokens([0, 2]), 9, sampling=SamplingParams(**sampling)), 1, 9)
    histories.of(own).outputs.extend(outputs)
    logits = torch.tensor([LOGITS, LOGITS])
    assert own.request.sampling.shifts_scores and not plain.request.sampling.shifts_scores
    changed = shifted([plain, own], logits, [1], histories)
    assert changed[0].tolist() == LOGITS and logits[1].tolist() == LOGITS
    return [float(score) for score in changed[1]]


def test_a_repetition_penalty_counts_prompt_and_outputs_once() -> None:
    assert scores([3, 3], repetition_penalty=2.0) == [0.5, 2.0, -2.0, 0.25]


def test_presence_counts_once_and_frequency_each_time_and_outputs_only() -> None:
    assert scores([3, 3, 1], presence_penalty=1.0) == [1.0, 1.0, -1.0, -0.5]
    assert scores([3, 3, 1], frequency_penalty=1.0) == [1.0, 1.0, -1.0, -1.5]
    assert scores([], presence_penalty=1.0, frequency_penalty=1.0) == LOGITS


def test_biases_are_added() -> None:
    assert scores([1], logit_bias=((2, 5.0), (0, -1.0))) == [0.0, 2.0, 4.0, 0.5]
