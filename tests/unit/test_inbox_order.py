"""Deliveries are ordered by themselves, never by the calls that brought them."""

from __future__ import annotations

from itertools import permutations

from schedlab.inbox import Cancel, Close, Delivery, Inbox, Submit
from schedlab.request import Prompt, Request


def test_the_order_is_time_then_source_then_number() -> None:
    wanted = [
        Delivery(1, 5, 0, Cancel(9)),
        Delivery(2, 0, 0, Submit(Request(0, Prompt(1), 1))),
        Delivery(2, 0, 1, Cancel(0)),
        Delivery(2, 1, 0, Close()),
    ]
    for calls in permutations(wanted):
        inbox = Inbox()
        for delivery in calls:
            inbox.deliver(delivery)
        assert inbox.drain() == wanted


def test_a_drain_takes_everything_and_keeps_nothing() -> None:
    inbox = Inbox()
    assert inbox.drain() == [] and len(inbox) == 0
    inbox.deliver(Delivery(0, 0, 0, Cancel(1)))
    assert len(inbox) == 1
    assert [delivery.message for delivery in inbox.drain()] == [Cancel(1)]
    assert inbox.drain() == []
    inbox.deliver(Delivery(0, 0, 1, Cancel(2)))
    assert [delivery.message for delivery in inbox.drain()] == [Cancel(2)]


def test_everyone_who_asked_is_told_of_each_delivery() -> None:
    inbox = Inbox()
    told: list[int] = []
    inbox.on_delivery += [lambda: told.append(1), lambda: told.append(2)]
    inbox.deliver(Delivery(0, 0, 0, Cancel(1)))
    inbox.deliver(Delivery(0, 0, 1, Cancel(1)))
    assert told == [1, 2, 1, 2]
