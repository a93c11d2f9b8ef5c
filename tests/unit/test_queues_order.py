"""Queues of waiting requests against sorted lists."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedlab.policies.queues import FifoQueue, KeyedQueue, WaitingQueue
from schedlab.policies.slai import FrontThenShortest
from schedlab.sequence import Sequence
from tests.unit.sequences import waiting

Order = Callable[[list[Sequence]], list[Sequence]]


def arrival(sequences: list[Sequence]) -> list[Sequence]:
    return sorted(sequences, key=lambda one: one.arrival_index)


def priority(sequences: list[Sequence]) -> list[Sequence]:
    return sorted(sequences, key=lambda one: (one.request.priority, one.arrival_index))


def front_then_shortest(sequences: list[Sequence]) -> list[Sequence]:
    front, others = arrival(sequences)[:1], arrival(sequences)[1:]
    return front + sorted(others, key=lambda one: (one.num_prompt_tokens, one.arrival_index))


CASES: list[tuple[Callable[[], WaitingQueue], Order]] = [
    (FifoQueue, arrival),
    (lambda: KeyedQueue(lambda one: (one.request.priority, one.arrival_index)), priority),
    (FrontThenShortest, front_then_shortest),
]


@pytest.mark.parametrize(("make", "order"), CASES, ids=["fifo", "keyed", "front then shortest"])
@given(data=st.data())
@settings(max_examples=60, derandomize=True, deadline=None, database=None)
def test_candidates_come_in_order(make: Callable[[], WaitingQueue], order: Order, data: st.DataObject) -> None:
    queue = make()
    inside: list[Sequence] = []
    for number in range(data.draw(st.integers(1, 25))):
        leaves: bool = data.draw(st.booleans())
        if inside and leaves:
            queue.remove(inside.pop(data.draw(st.integers(0, len(inside) - 1))))
        else:
            drawn = data.draw(st.tuples(st.integers(1, 4), st.integers(0, 2)))
            inside.append(waiting(number, prompt_tokens=drawn[0], priority=drawn[1]))
            queue.push(inside[-1])
        assert list(queue.candidates()) == order(inside)
        assert len(queue) == len(inside)


@pytest.mark.parametrize(("make", "order"), CASES[1:], ids=["keyed", "front then shortest"])
def test_equals_stand_as_they_arrived_however_they_were_pushed(make: Callable[[], WaitingQueue], order: Order) -> None:
    queue, inside = make(), [waiting(number, prompt_tokens=5) for number in range(4)]
    for one in (inside[0], inside[3], inside[1], inside[2]):
        queue.push(one)
    assert list(queue.candidates()) == order(inside)


def test_peeking_changes_nothing_and_is_lazy() -> None:
    queue = FrontThenShortest()
    for number in range(5):
        queue.push(waiting(number, prompt_tokens=5 - number))
    assert next(queue.candidates()).request_id == 0
    assert [one.request_id for one in queue.candidates()] == [0, 4, 3, 2, 1]
    assert len(queue) == 5
