"""Copies take turns on a link, overlap with other links, and wait for the copies that they name."""

from __future__ import annotations

from backends.sim.clock import SimClock
from backends.sim.links import CopyTicket, Links, LinkSpec
from schedlab.device import CopyKind, CopyOp
from schedlab.pace import ns_to_quanta, quanta_to_ns

OUT, BACK = CopyKind.DEVICE_TO_HOST, CopyKind.HOST_TO_DEVICE
SPECS = {OUT: LinkSpec(1_000_000_000, 10), BACK: LinkSpec(2_000_000_000, 5)}


def made() -> tuple[SimClock, Links, list[tuple[int, int]]]:
    """A clock, its links, and the (number, time) of each end as it is announced."""
    clock = SimClock()
    links = Links(clock, SPECS)
    ends: list[tuple[int, int]] = []
    links.on_done.append(lambda ticket: ends.append((ticket.number, clock.now_ns())))
    return clock, links, ends


def test_one_link_serves_in_order_and_two_overlap() -> None:
    clock, links, ends = made()
    tickets = [
        links.copy(CopyOp(OUT, (0,), 100, 0)),
        links.copy(CopyOp(OUT, (1,), 50, 0)),
        links.copy(CopyOp(BACK, (2,), 100, 0)),
    ]
    assert [quanta_to_ns(ticket.end_quanta) for ticket in tickets] == [110, 170, 55]
    clock.run()
    assert ends == [(3, 55), (1, 110), (2, 170)]


def test_a_copy_starts_when_those_it_names_have_ended_and_its_link_is_free() -> None:
    clock, links, ends = made()
    out = links.copy(CopyOp(OUT, (0,), 100, 0))
    back = links.copy(CopyOp(BACK, (0,), 100, 0, after=(out,)))
    behind = links.copy(CopyOp(BACK, (1,), 0, 0))
    assert quanta_to_ns(back.end_quanta) == 165
    assert quanta_to_ns(behind.end_quanta) == 170
    clock.run()
    assert [number for number, _ in ends] == [1, 2, 3]


def test_a_link_that_has_been_idle_starts_now() -> None:
    clock, links, _ = made()
    later: list[CopyTicket] = []
    links.copy(CopyOp(OUT, (0,), 100, 0))
    clock.at_ns(1000, lambda _: later.append(links.copy(CopyOp(OUT, (0,), 100, 0))))
    clock.run()
    assert quanta_to_ns(later[0].end_quanta) == 1110


def test_a_part_of_a_quantum_takes_a_whole_one() -> None:
    assert LinkSpec(3_000_000_000, 0).duration_quanta(1) == -(-ns_to_quanta(1) // 3)
    assert LinkSpec(10**18, 0).duration_quanta(1) == 1
    assert LinkSpec(10**18, 0).duration_quanta(0) == 0
