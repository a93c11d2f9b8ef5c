"""What a scenario may expect. Each function has the name of a key in a file's `expect` table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from tests.conformance.recorder import Recorder, Snapshot
from tests.conformance.scenario import NS_PER_MS

Check = Callable[[Recorder, Any], None]
CHECKS: dict[str, Check] = {}


def check(run: Recorder, expected: Mapping[str, Any]) -> None:
    """Every expectation of the table.

    Raises:
        KeyError: a key that names no expectation.
    """
    for name, value in expected.items():
        CHECKS[name](run, value)


def _expectation(function: Check) -> Check:
    CHECKS[function.__name__] = function
    return function


# Steps, counted from 1.


@_expectation
def steps(run: Recorder, value: dict[str, dict[str, int]]) -> None:
    """Exactly these requests compute exactly these tokens in the given steps."""
    found = {number: run.steps[int(number) - 1].tokens for number in value}
    assert found == value


@_expectation
def num_steps(run: Recorder, value: int) -> None:
    assert len(run.steps) == value


@_expectation
def max_steps(run: Recorder, value: int) -> None:
    assert len(run.steps) <= value


@_expectation
def max_step_tokens(run: Recorder, value: int) -> None:
    assert max(sum(step.tokens.values()) for step in run.steps) <= value


@_expectation
def computed_tokens(run: Recorder, value: int) -> None:
    """All tokens that all steps computed."""
    assert sum(sum(step.tokens.values()) for step in run.steps) == value


@_expectation
def used_blocks(run: Recorder, value: dict[str, int]) -> None:
    """Blocks in use during steps; leave out steps inside a run of repeated ones."""
    found = {number: run.steps[int(number) - 1].used_blocks for number in value}
    assert found == {number: blocks for number, blocks in value.items() if found[number] is not None}


@_expectation
def first_step(run: Recorder, value: dict[str, int]) -> None:
    """The step in which a request computes its first token."""
    found = {name: 1 + next(i for i, step in enumerate(run.steps) if name in step.tokens) for name in value}
    assert found == value


@_expectation
def in_every_step_until_end(run: Recorder, value: list[str]) -> None:
    """From its first step to its last a request computes something in each."""
    for name in value:
        present = [index for index, step in enumerate(run.steps) if name in step.tokens]
        assert present == list(range(present[0], present[-1] + 1)), f"{name} misses a step"


@_expectation
def max_outputs_per_step(run: Recorder, value: int) -> None:
    """No step gives more output tokens than that."""
    ends = Counter(end for lived in run.lived.values() for end in lived.token_ns)
    assert max(ends.values()) <= value


@_expectation
def max_events_per_request_and_step(run: Recorder, value: int) -> None:
    assert run.num_events <= value * (len(run.lived) + len(run.steps))


@_expectation
def chunks(run: Recorder, value: dict[str, list[int]]) -> None:
    """The sizes of a request's pieces of more than one token, in order."""
    found = {name: [s.tokens[name] for s in run.steps if s.tokens.get(name, 0) > 1] for name in value}
    assert found == value


# Order.


@_expectation
def start_order(run: Recorder, value: list[str]) -> None:
    assert run.starts == value


@_expectation
def resume_order(run: Recorder, value: list[str]) -> None:
    assert run.resumes == value


@_expectation
def preempted(run: Recorder, value: list[str]) -> None:
    """Who was preempted, in order."""
    assert run.preempted == value


@_expectation
def end_order(run: Recorder, value: list[str]) -> None:
    assert run.ends == value


@_expectation
def ends_before(run: Recorder, value: list[list[str]]) -> None:
    for earlier, later in value:
        assert run.ends.index(earlier) < run.ends.index(later), f"{earlier} ends after {later}"


@_expectation
def starts_before(run: Recorder, value: list[list[str]]) -> None:
    for earlier, later in value:
        assert run.starts.index(earlier) < run.starts.index(later), f"{earlier} starts after {later}"


# Preemption.


@_expectation
def preemptions(run: Recorder, value: dict[str, int]) -> None:
    assert {name: len(run.lived[name].preempted_ns) for name in value} == value


@_expectation
def max_preemptions(run: Recorder, value: dict[str, int]) -> None:
    for name, most in value.items():
        assert len(run.lived[name].preempted_ns) <= most


@_expectation
def total_preemptions(run: Recorder, value: int) -> None:
    assert len(run.preempted) == value


@_expectation
def min_total_preemptions(run: Recorder, value: int) -> None:
    assert len(run.preempted) >= value


@_expectation
def recomputed(run: Recorder, value: dict[str, int]) -> None:
    """Tokens computed more than once."""
    assert {name: run.lived[name].recomputed for name in value} == value


@_expectation
def max_recomputed(run: Recorder, value: dict[str, int]) -> None:
    for name, most in value.items():
        assert run.lived[name].recomputed <= most


# Ends and outputs.


@_expectation
def finish(run: Recorder, value: dict[str, str]) -> None:
    assert {name: str(run.lived[name].reason) for name in value} == value


@_expectation
def all_finish(run: Recorder, value: str) -> None:
    assert {str(lived.reason) for lived in run.lived.values()} == {value}


@_expectation
def errors(run: Recorder, value: dict[str, list[str]]) -> None:
    """Words that the reason of a refusal or failure contains."""
    for name, words in value.items():
        assert all(word in run.lived[name].error for word in words), run.lived[name].error


@_expectation
def outputs(run: Recorder, value: dict[str, int]) -> None:
    assert {name: len(run.lived[name].token_ns) for name in value} == value


@_expectation
def all_outputs(run: Recorder, value: int) -> None:
    assert {len(lived.token_ns) for lived in run.lived.values()} == {value}


@_expectation
def total_outputs(run: Recorder, value: int) -> None:
    assert sum(len(lived.token_ns) for lived in run.lived.values()) == value


@_expectation
def tokens(run: Recorder, value: dict[str, list[int]]) -> None:
    assert {name: run.lived[name].tokens for name in value} == value


@_expectation
def most_blocks(run: Recorder, value: dict[str, int]) -> None:
    """The longest that a request's block table ever is."""
    assert {name: run.lived[name].most_blocks for name in value} == value


# Times, in milliseconds.


@_expectation
def started_ms(run: Recorder, value: dict[str, float]) -> None:
    assert {name: _ms(run.lived[name].started_ns) for name in value} == value


@_expectation
def first_token_ms(run: Recorder, value: dict[str, float]) -> None:
    assert {name: _ms(run.lived[name].token_ns[0]) for name in value} == value


@_expectation
def ended_ms(run: Recorder, value: dict[str, float]) -> None:
    assert {name: _ms(run.lived[name].ended_ns) for name in value} == value


@_expectation
def phases_ms(run: Recorder, value: dict[str, list[float]]) -> None:
    """Queue, prefill and decode time of a request; together its time from arrival to end."""
    for name, phases in value.items():
        lived = run.lived[name]
        assert lived.arrived_ns is not None and lived.started_ns is not None
        stamps = [_ms(stamp) for stamp in (lived.arrived_ns, lived.started_ns, lived.token_ns[0], lived.ended_ns)]
        assert [after - before for before, after in pairwise(stamps)] == phases
        assert stamps[-1] - stamps[0] == sum(phases)


@_expectation
def max_gap_ms(run: Recorder, value: dict[str, float]) -> None:
    """The longest time between two of a request's tokens."""
    for name, most in value.items():
        times = run.lived[name].token_ns
        assert max(b - a for a, b in pairwise(times)) <= most * NS_PER_MS


# Who is where when the last plan at or before a time has been made.


@_expectation
def waiting_at_ms(run: Recorder, value: dict[str, list[str]]) -> None:
    assert {at: _snapshot(run, at).waiting for at in value} == value


@_expectation
def running_at_ms(run: Recorder, value: dict[str, list[str]]) -> None:
    """Owners of a seat: prefilling, then decoding, each in order."""
    assert {at: _snapshot(run, at).running for at in value} == value


@_expectation
def parked_at_ms(run: Recorder, value: dict[str, list[str]]) -> None:
    assert {at: _snapshot(run, at).parked for at in value} == value


@_expectation
def used_blocks_at_ms(run: Recorder, value: dict[str, int]) -> None:
    assert {at: _snapshot(run, at).used_blocks for at in value} == value


@_expectation
def committed_at_ms(run: Recorder, value: dict[str, int]) -> None:
    """The sum of commitments, in blocks."""
    assert {at: _snapshot(run, at).committed_blocks for at in value} == value


def _snapshot(run: Recorder, at_ms: str) -> Snapshot:
    return [one for one in run.snapshots if one.now_ns <= float(at_ms) * NS_PER_MS][-1]


def _ms(time_ns: int | None) -> float:
    assert time_ns is not None
    return time_ns / NS_PER_MS
