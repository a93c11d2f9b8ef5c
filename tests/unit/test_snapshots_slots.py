"""Slots whose state a copy still uses: they are given away last, and whoever writes there waits."""

from __future__ import annotations

import pytest

from schedlab.config import PreemptionMode, ResumeRule, SchedulerConfig
from schedlab.core.swapping import swap_out
from schedlab.device import CopyKind
from schedlab.errors import InvariantViolation
from schedlab.memory.slots import SlotTable
from schedlab.request import Prompt, Request
from schedlab.sequence import Sequence, State
from tests.unit.hand_device import Hand, HandDevice, HandTicket


def sequences(count: int) -> list[Sequence]:
    return [Sequence(Request(number, Prompt(1), 1), number, 1) for number in range(count)]


def test_a_slot_that_a_copy_uses_is_given_away_last() -> None:
    table, (first, second, third, fourth) = SlotTable(3), sequences(4)
    assert [table.claim(one) for one in (first, second)] == [None, None]
    copy = HandTicket(7)
    table.release(first)
    table.keep_open(0, copy)
    assert (table.claim(third), third.slot) == (None, 2)
    table.release(second)
    assert (table.claim(second), second.slot) == (None, 1)
    assert (table.claim(fourth), fourth.slot) == (copy, 0)
    with pytest.raises(InvariantViolation, match="all 3 slots are owned"):
        table.claim(first)


def test_a_copy_that_has_ended_is_waited_for_by_nobody() -> None:
    table, (first, second) = SlotTable(1), sequences(2)
    table.claim(first)
    table.release(first)
    copy = HandTicket(7)
    table.keep_open(0, copy)
    table.close(HandTicket(8))
    table.close(copy)
    assert table.claim(second) is None


def test_rows_are_not_moved_to_a_slot_that_a_copy_uses() -> None:
    table, owners = SlotTable(4), sequences(4)
    for one in owners:
        table.claim(one)
    table.release(owners[0])
    table.release(owners[1])
    table.keep_open(0, HandTicket(7))
    moves = [(one.request_id, source, target) for one, source, target in table.moves(owners[2:], 2)]
    assert moves == [(2, 2, 1)]
    assert [one.slot for one in owners[2:]] == [1, 3]


def one_seat() -> Hand:
    config = SchedulerConfig(
        max_num_seqs=1, preemption=PreemptionMode.HOST, swap_host_gib=1, resume=ResumeRule.SMALLEST, prefix_cache=True
    )
    return Hand(config, HandDevice())


def swapped(one: Hand, request_id: int) -> HandTicket:
    """Bring a request into the batch and swap it out at once; the copy is open."""
    one.submit(request_id, (), 20)
    one.tick(2)
    assert swap_out(one.core, one.sequence(request_id), PreemptionMode.HOST)
    ticket, op = one.device.copies[-1]
    assert (op.kind, op.slot, op.num_bytes) == (CopyKind.DEVICE_TO_HOST, 0, len(op.blocks) + 1)
    return ticket


def test_the_first_step_of_the_next_owner_waits_for_the_copy_that_reads_its_slot() -> None:
    one = one_seat()
    saved = swapped(one, 1)
    one.submit(2, (), 20)
    one.tick()
    assert [chunk.sequence.request_id for chunk in one.device.steps[-1].chunks] == [2]
    one.tick()
    assert [step.after for step in one.device.steps[-2:]] == [(saved,), ()]


def test_a_restore_waits_for_the_copy_that_reads_its_slot() -> None:
    one = one_seat()
    one.end_copy(swapped(one, 1))
    saved = swapped(one, 2)
    one.tick()
    ticket, op = one.device.copies[-1]
    assert (op.kind, op.request_id, op.slot) == (CopyKind.HOST_TO_DEVICE, 1, 0)
    assert saved in op.after and ticket is one.core.restoring[one.sequence(1)]


def test_a_slot_waits_for_the_restore_whose_owner_has_gone() -> None:
    one = one_seat()
    one.end_copy(swapped(one, 1))
    one.tick()
    restored, _ = one.device.copies[-1]
    assert one.sequence(1).state is State.RESTORING
    one.cancel(1)
    one.submit(2, (), 20)
    one.tick()
    assert one.device.steps[-1].after == (restored,)
