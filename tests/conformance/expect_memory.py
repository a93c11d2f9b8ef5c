"""Expectations of memory: what the prefix cache gives, who is swapped out, and what blocks hold."""

from __future__ import annotations

from tests.conformance.expectation import expectation
from tests.conformance.recorder import Recorder


@expectation
def cached(run: Recorder, value: dict[str, int]) -> None:
    """Tokens that the cache gave a request at its first seat."""
    assert {name: run.lived[name].cached for name in value} == value


@expectation
def all_cached(run: Recorder, value: int) -> None:
    assert {lived.cached for lived in run.lived.values()} == {value}


@expectation
def cached_on_return(run: Recorder, value: dict[str, int]) -> None:
    """Tokens that the cache gave a request when it came back."""
    assert {name: run.lived[name].cached_on_return for name in value} == value


@expectation
def min_total_cached_on_return(run: Recorder, value: int) -> None:
    assert sum(lived.cached_on_return for lived in run.lived.values()) >= value


@expectation
def prefilled(run: Recorder, value: dict[str, int]) -> None:
    """Tokens that chunks computed for a request, repeated ones too."""
    assert {name: run.lived[name].prefilled for name in value} == value


@expectation
def cached_blocks(run: Recorder, value: int) -> None:
    """Blocks that can be found when all is over."""
    assert run.core.pool.cached_blocks == value


@expectation
def evicted_blocks(run: Recorder, value: int) -> None:
    """How often a block that could be found was taken for something else."""
    assert run.core.pool.num_evicted == value


@expectation
def swapped(run: Recorder, value: list[str]) -> None:
    """Who was swapped out, and where to, in order."""
    assert run.swapped == value


@expectation
def restored(run: Recorder, value: list[str]) -> None:
    """Whose image came back, in order."""
    assert run.restored == value


# When the last plan at or before a time has been made.


@expectation
def tables_at_ms(run: Recorder, value: dict[str, dict[str, list[int]]]) -> None:
    found = {at: {name: run.at_ms(float(at)).tables[name] for name in names} for at, names in value.items()}
    assert found == value


@expectation
def shared_at_ms(run: Recorder, value: dict[str, dict[str, int]]) -> None:
    """How many blocks of each request's table others hold too."""
    found = {at: {name: _shared(run.at_ms(float(at)).tables, name) for name in names} for at, names in value.items()}
    assert found == value


@expectation
def used_at_ms(run: Recorder, value: dict[str, int]) -> None:
    assert {at: run.at_ms(float(at)).used_blocks for at in value} == value


@expectation
def cached_at_ms(run: Recorder, value: dict[str, int]) -> None:
    """Blocks that can be found."""
    assert {at: run.at_ms(float(at)).cached_blocks for at in value} == value


@expectation
def restoring_at_ms(run: Recorder, value: dict[str, list[str]]) -> None:
    assert {at: run.at_ms(float(at)).restoring for at in value} == value


def _shared(tables: dict[str, list[int]], name: str) -> int:
    others = {block for other, table in tables.items() if other != name for block in table}
    return sum(block in others for block in tables[name])
