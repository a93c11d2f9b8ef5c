"""A row that is alone in the pool waits for its window's copies; what a window leaves behind in the cache."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from schedlab.config import SchedulerConfig
from schedlab.device import CopyKind
from schedlab.events import StepDone
from schedlab.fault_plan import CopyFailure, FaultPlan, Which
from schedlab.memory.prefix import CachingBlockPool
from schedlab.memory.swap import GIB
from schedlab.request import FinishReason
from schedlab.testing import Node, World, run
from tests.unit.hand_device import Hand, HandDevice
from tests.unit.shadow_helpers import one, said, small_world, steps_a_block


def run_shadowed(world: World, *, leap: bool = True) -> tuple[Node, list[tuple[int, str]]]:
    """The node after its run, and how its requests ended."""
    nodes: list[Node] = []
    outcome = run(world, leap=leap, watch=nodes.append)
    assert outcome.end == "done"
    return nodes[0], [(request_id, ending.reason) for request_id, ending in outcome.endings.items()]


@pytest.mark.parametrize("leap", [True, False])
@pytest.mark.parametrize("steps", [0.1, 3, 50])
@pytest.mark.parametrize("window_blocks", [2, 5, 40])
def test_a_row_that_fills_the_pool_alone_waits_for_its_copies(window_blocks: int, steps: float, leap: bool) -> None:
    """60 tokens in 15 blocks of 4, a pool of 5: late copies cost time and no error."""
    window = {"window_blocks": window_blocks, "swap_disk_gib": 4}
    _, endings = run_shadowed(small_world(5, one(10, 51), links=steps_a_block(steps), **window), leap=leap)
    assert endings == [(0, FinishReason.STOP)]


def test_a_disk_without_room_still_ends_it_with_an_error_that_says_so() -> None:
    """The disk takes 64 of the blocks of 16 MiB; the sequence needs 66 and the pool keeps 1."""
    world = small_world(2, one(4, 270), window_blocks=1, swap_disk_gib=1)
    assert run_shadowed(world)[1] == [(0, FinishReason.ERROR)]


@pytest.mark.parametrize("holders", [1, 2])
def test_what_a_window_leaves_behind_can_all_be_found(holders: int) -> None:
    """A slid sequence has let go of the beginning of its chain; the short one before it leaves three blocks."""
    rules: dict[str, Any] = {"window_blocks": 3, "swap_disk_gib": 4, "prefix_cache": True}
    texts = [one(13, 1, 0, said()), *[one(24, 30, 4 + number, said()) for number in range(holders)]]
    node, _ = run_shadowed(small_world(40, *texts, **rules))
    pool = node.core.pool
    assert isinstance(pool, CachingBlockPool) and not pool.used_blocks
    keys = said().prompt(0, 24).block_keys(4)
    reachable = pool.lookup(keys, len(keys))
    assert set(pool.idle_list()) == set(reachable), "an idle block that no lookup reaches"
    assert list(pool.idle_list()) == reachable[::-1], "the head of the list is the deepest block"


class Starts:
    """Collects how many blocks have left the windows of the rows."""

    def __init__(self, left: list[int]) -> None:
        self._left = left

    def on_step_done(self, event: StepDone) -> None:
        self._left += [row.window.start for row in event.batch.rows if row.window is not None]


@pytest.mark.parametrize("leap", [True, False])
@pytest.mark.parametrize("failing", [1, 4])
def test_blocks_behind_one_that_the_disk_refused_stay_on_the_device(failing: int, leap: bool) -> None:
    """One copy fails and those behind it do not: what is read again is right, and it stays and those behind it too."""
    world = small_world(30, one(40, 30), links=steps_a_block(0.1), window_blocks=4, swap_disk_gib=1)
    refused = CopyFailure(Which((failing,)), (CopyKind.HOST_TO_DISK,))
    left: list[int] = []

    def look(node: Node) -> None:
        node.core.bus.add(Starts(left))

    outcome = run(replace(world, faults=FaultPlan(copy_failures=(refused,))), leap=leap, watch=look)
    assert outcome.end == "done"
    assert [ending.reason for ending in outcome.endings.values()] == [FinishReason.STOP]
    assert max(left) == failing - 1


class Late(Hand):
    """Something comes once more between what each tick receives and its plan, and it says nothing."""

    def tick(self, count: int = 1) -> None:
        begin_tick = self.core.begin_tick
        setattr(self.core, "begin_tick", lambda: (begin_tick(), self.core.receive()))  # noqa: B010
        super().tick(count)


@pytest.mark.parametrize("kind", [Hand, Late])
def test_room_that_one_who_gives_way_leaves_on_the_disk_is_used_by_the_plan_that_it_leaves_in(kind: type[Hand]) -> None:
    """Three rows outgrow a pool of 12 blocks while their copies go on; of the disk's 5 the last row has one."""
    device = HandDevice(num_blocks=12, state_bytes=0)
    device.facts = replace(device.facts, block_bytes=GIB // 5)
    hand = kind(SchedulerConfig(block_size=4, window_blocks=2, swap_disk_gib=1), device)
    used: list[tuple[int, int]] = []
    hand.core.bus.on_preempted.append(lambda event: used.append((event.sequence.request_id, len(device.copies))))
    for request_id in (1, 2, 3):
        hand.submit(request_id, (), 12, outputs=9)
    while not used:
        hand.tick()
    assert used == [(3, 2 * 5)], "the third leaves, when the disk is full"
    assert [op.request_id for _, op in device.copies[2 * 5 :]] == [1, 1], "the first has its room at once"


@pytest.mark.parametrize(("outputs", "found"), [(9, 4), (10, 4), (13, 0)])
@pytest.mark.parametrize("copied", [True, False])
def test_a_row_leaves_its_outputs_to_be_found_until_its_window_lets_a_block_go(
    outputs: int, found: int, copied: bool
) -> None:
    """A window of four blocks of 4 and a prompt of two: the fourth begins a copy, the sixth needs the first to go."""
    config = SchedulerConfig(block_size=4, prefix_cache=True, window_blocks=4, swap_disk_gib=1)
    device = HandDevice(state_bytes=0)
    device.keys[1] = list(range(900, 910))
    hand = Hand(config, device)
    hand.submit(1, (500, 501), 8, outputs=outputs)
    for _ in range(outputs + 1):
        hand.tick()
        if copied:
            hand.end_all_copies()
    assert 1 not in hand.core.sequences
    hand.submit(2, (500, 501, *range(900, 910)), 40)
    hand.tick()
    assert hand.sequence(2).num_cached_tokens == 4 * (found if copied else (8 + outputs - 1) // 4)
