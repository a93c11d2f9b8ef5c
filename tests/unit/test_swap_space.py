"""Bytes of the two swap tiers, and the cursors of a window."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedlab.memory.swap import GIB, SwapSpace, Tier
from schedlab.memory.window import Window

BUDGETS = st.integers(0, 20)


@given(host=BUDGETS, disk=BUDGETS, data=st.data())
@settings(max_examples=40, derandomize=True, deadline=None, database=None)
def test_a_tier_takes_what_is_left_of_its_own_budget_and_no_byte_more(
    host: int, disk: int, data: st.DataObject
) -> None:
    space, budgets = SwapSpace(host, disk), {Tier.HOST: host, Tier.DISK: disk}
    images: list[tuple[Tier, int]] = []
    for _ in range(data.draw(st.integers(1, 25))):
        tier, num_bytes = data.draw(st.sampled_from(list(Tier))), data.draw(st.integers(0, 12))
        left = budgets[tier] - sum(size for place, size in images if place is tier)
        assert space.has_room(tier, num_bytes) is (num_bytes <= left)
        if num_bytes <= left:
            space.take(tier, num_bytes)
            images.append((tier, num_bytes))
        else:
            with pytest.raises(AssertionError):
                space.take(tier, num_bytes)
        if images and data.draw(st.booleans()):
            space.give_back(*images.pop(data.draw(st.integers(0, len(images) - 1))))
        assert space.budget_bytes == budgets
        assert space.used_bytes == {one: sum(size for place, size in images if place is one) for one in Tier}


def test_a_gib_is_two_to_the_thirty() -> None:
    assert GIB == 1024**3


def test_a_new_window_has_nothing_on_disk_or_on_its_way() -> None:
    window = Window()
    assert (window.start, window.offloaded, window.requested, window.is_stuck) == (0, 0, 0, False)
    assert not window.has_open_copies


@pytest.mark.parametrize(
    ("offloaded", "requested", "is_stuck", "has_open"),
    [(0, 1, False, True), (0, 1, True, False), (3, 3, False, False), (3, 3, True, False), (3, 5, False, True)],
)
def test_copies_are_open_while_more_is_requested_than_safe_and_none_has_failed(
    offloaded: int, requested: int, is_stuck: bool, has_open: bool
) -> None:
    assert Window(0, offloaded, requested, is_stuck).has_open_copies is has_open
    assert Window(offloaded, offloaded, requested, is_stuck).has_open_copies is has_open
