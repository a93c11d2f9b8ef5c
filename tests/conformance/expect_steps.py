"""Expectations of what each step computes. Steps are counted from 1."""

from __future__ import annotations

from collections import Counter

from tests.conformance.expectation import expectation
from tests.conformance.recorder import Recorder


@expectation
def steps(run: Recorder, value: dict[str, dict[str, int]]) -> None:
    """Exactly these requests compute exactly these tokens in the given steps."""
    found = {number: run.steps[int(number) - 1].tokens for number in value}
    assert found == value


@expectation
def num_steps(run: Recorder, value: int) -> None:
    assert len(run.steps) == value


@expectation
def used_blocks(run: Recorder, value: dict[str, int]) -> None:
    """Blocks in use during steps; leave out steps inside a run of repeated ones."""
    found = {number: run.steps[int(number) - 1].used_blocks for number in value}
    assert found == {number: blocks for number, blocks in value.items() if found[number] is not None}


@expectation
def first_step(run: Recorder, value: dict[str, int]) -> None:
    """The step in which a request computes its first token."""
    found = {name: 1 + next(i for i, step in enumerate(run.steps) if name in step.tokens) for name in value}
    assert found == value


@expectation
def max_outputs_per_step(run: Recorder, value: int) -> None:
    """No step gives more output tokens than that."""
    ends = Counter(end for lived in run.lived.values() for end in lived.token_ns)
    assert max(ends.values()) <= value


@expectation
def max_events_per_request_and_step(run: Recorder, value: int) -> None:
    assert run.num_events <= value * (len(run.lived) + len(run.steps))


@expectation
def chunks(run: Recorder, value: dict[str, list[int]]) -> None:
    """The sizes of a request's pieces of more than one token, in order."""
    found = {name: [s.tokens[name] for s in run.steps if s.tokens.get(name, 0) > 1] for name in value}
    assert found == value
