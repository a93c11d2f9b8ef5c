"""Expectations of what becomes of each request: order, preemptions, ends, outputs, times, places."""

from __future__ import annotations

from itertools import pairwise

from tests.conformance.expectation import expectation
from tests.conformance.recorder import Recorder
from tests.conformance.records import Snapshot
from tests.conformance.scenario import NS_PER_MS


@expectation
def start_order(run: Recorder, value: list[str]) -> None:
    assert run.starts == value


@expectation
def resume_order(run: Recorder, value: list[str]) -> None:
    assert run.resumes == value


@expectation
def preempted(run: Recorder, value: list[str]) -> None:
    """Who was preempted, in order."""
    assert run.preempted == value


@expectation
def end_order(run: Recorder, value: list[str]) -> None:
    assert run.ends == value


@expectation
def ends_before(run: Recorder, value: list[list[str]]) -> None:
    for earlier, later in value:
        assert run.ends.index(earlier) < run.ends.index(later), f"{earlier} ends after {later}"


@expectation
def starts_before(run: Recorder, value: list[list[str]]) -> None:
    for earlier, later in value:
        assert run.starts.index(earlier) < run.starts.index(later), f"{earlier} starts after {later}"


# Preemption.


@expectation
def preemptions(run: Recorder, value: dict[str, int]) -> None:
    assert {name: len(run.lived[name].preempted_ns) for name in value} == value


@expectation
def total_preemptions(run: Recorder, value: int) -> None:
    assert len(run.preempted) == value


@expectation
def min_total_preemptions(run: Recorder, value: int) -> None:
    assert len(run.preempted) >= value


@expectation
def recomputed(run: Recorder, value: dict[str, int]) -> None:
    """Tokens computed more than once."""
    assert {name: run.lived[name].recomputed for name in value} == value


# Ends and outputs.


@expectation
def finish(run: Recorder, value: dict[str, str]) -> None:
    assert {name: str(run.lived[name].reason) for name in value} == value


@expectation
def all_finish(run: Recorder, value: str) -> None:
    assert {str(lived.reason) for lived in run.lived.values()} == {value}


@expectation
def errors(run: Recorder, value: dict[str, list[str]]) -> None:
    """Words that the reason of a refusal or failure contains."""
    for name, words in value.items():
        assert all(word in run.lived[name].error for word in words), run.lived[name].error


@expectation
def outputs(run: Recorder, value: dict[str, int]) -> None:
    assert {name: len(run.lived[name].token_ns) for name in value} == value


@expectation
def all_outputs(run: Recorder, value: int) -> None:
    assert {len(lived.token_ns) for lived in run.lived.values()} == {value}


@expectation
def total_outputs(run: Recorder, value: int) -> None:
    assert sum(len(lived.token_ns) for lived in run.lived.values()) == value


@expectation
def tokens(run: Recorder, value: dict[str, list[int]]) -> None:
    assert {name: run.lived[name].tokens for name in value} == value


@expectation
def most_blocks(run: Recorder, value: dict[str, int]) -> None:
    """The longest that a request's block table ever is."""
    assert {name: run.lived[name].most_blocks for name in value} == value


# Times, in milliseconds.


@expectation
def started_ms(run: Recorder, value: dict[str, float]) -> None:
    assert {name: _ms(run.lived[name].started_ns) for name in value} == value


@expectation
def first_token_ms(run: Recorder, value: dict[str, float]) -> None:
    assert {name: _ms(run.lived[name].token_ns[0]) for name in value} == value


@expectation
def ended_ms(run: Recorder, value: dict[str, float]) -> None:
    assert {name: _ms(run.lived[name].ended_ns) for name in value} == value


@expectation
def phases_ms(run: Recorder, value: dict[str, list[float]]) -> None:
    """Queue, prefill and decode time of a request; together its time from arrival to end."""
    for name, phases in value.items():
        lived = run.lived[name]
        assert lived.arrived_ns is not None and lived.started_ns is not None
        stamps = [_ms(stamp) for stamp in (lived.arrived_ns, lived.started_ns, lived.token_ns[0], lived.ended_ns)]
        assert [after - before for before, after in pairwise(stamps)] == phases
        assert stamps[-1] - stamps[0] == sum(phases)


@expectation
def max_gap_ms(run: Recorder, value: dict[str, float]) -> None:
    """The longest time between two of a request's tokens."""
    for name, most in value.items():
        times = run.lived[name].token_ns
        assert max(b - a for a, b in pairwise(times)) <= most * NS_PER_MS


# Who is where when the last plan at or before a time has been made.


@expectation
def waiting_at_ms(run: Recorder, value: dict[str, list[str]]) -> None:
    assert {at: _snapshot(run, at).waiting for at in value} == value


@expectation
def running_at_ms(run: Recorder, value: dict[str, list[str]]) -> None:
    """Owners of a seat: prefilling, then decoding, each in order."""
    assert {at: _snapshot(run, at).running for at in value} == value


@expectation
def parked_at_ms(run: Recorder, value: dict[str, list[str]]) -> None:
    assert {at: _snapshot(run, at).parked for at in value} == value


@expectation
def committed_at_ms(run: Recorder, value: dict[str, int]) -> None:
    """The sum of commitments, in blocks."""
    assert {at: _snapshot(run, at).committed_blocks for at in value} == value


def _snapshot(run: Recorder, at_ms: str) -> Snapshot:
    return run.at_ms(float(at_ms))


def _ms(time_ns: int | None) -> float:
    assert time_ns is not None
    return time_ns / NS_PER_MS
