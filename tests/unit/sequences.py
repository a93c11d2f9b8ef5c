"""Sequences in the states that unit tests of their containers need."""

from __future__ import annotations

from schedlab.batch import DecodeBatch
from schedlab.request import Prompt, Request
from schedlab.sequence import Sequence


def waiting(number: int, prompt_tokens: int = 1, max_outputs: int = 100, priority: int = 0) -> Sequence:
    """A new sequence; `number` is its id and its place in the order of arrival."""
    request = Request(number, Prompt(prompt_tokens), max_outputs, priority=priority)
    return Sequence(request, number, max_outputs)


def join(batch: DecodeBatch, sequence: Sequence, now_ns: int = 0) -> None:
    """The sequence's known tokens but the newest are computed, and it samples one more: it decodes."""
    sequence.num_computed = sequence.num_known
    sequence.num_outputs += 1
    batch.join(sequence, now_ns)
