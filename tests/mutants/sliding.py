"""Attacks by worlds that were made for windows, whose oldest blocks go to the disk."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from schedlab.device import CopyKind
from schedlab.events import StepDone
from schedlab.fault_plan import CopyFailure, FaultPlan, Which
from schedlab.memory.swap import GIB
from schedlab.policies.fifo import Fifo
from schedlab.testing import Node, Session, Turn, World
from tests.mutants.attack import Attack
from tests.mutants.made import one, said, world
from tests.mutants.moments import STEP_NS
from tests.mutants.worlds import attack_world, played


class Windows:
    """Observer: no row has less on the device than its share, and the cost model is told what is on disk."""

    def __init__(self, of: World, node: Node) -> None:
        self._batch, self._share = node.core.batch, of.config.window_blocks
        self.most = 0

    def on_step_done(self, event: StepDone) -> None:
        windows = [row.window for row in self._batch.rows if row.window]
        far = sum(window.start for window in windows)
        assert self._batch.far_blocks == far, f"{self._batch.far_blocks} blocks are far, the windows begin at {far}"
        for row in self._batch.rows:
            held = len(row.block_table)
            assert not row.window or not row.window.start or held >= self._share, f"{row} keeps {held} blocks"
        self.most = max(self.most, far)


def windows_slide() -> None:
    """Fast and slow disks, a small one, a share of one block, and copies that fail."""
    sessions = (one(6, 60), one(10, 50), one(17, 40, 9), one(40, 9, 11))
    failures = FaultPlan(copy_failures=(CopyFailure(Which((2, 5)), (CopyKind.HOST_TO_DISK,)),))
    for faults, steps_per_block, gib, share in (
        (FaultPlan(), 1, 9, 4),
        (FaultPlan(), 7, 9, 4),
        (FaultPlan(), 1, 1, 4),
        (FaultPlan(), 1, 9, 1),
        (failures, 1, 9, 4),
    ):
        of = world(Fifo, 40, *sessions, window_blocks=share, swap_disk_gib=gib)
        _slide(replace(of, faults=faults), steps_per_block)


def windows_slide_over_a_cache() -> None:
    """Conversations, of which those go on that were never cut."""
    turns = (Turn(9, 30), Turn(5, 30), Turn(3, 9))
    sessions = (Session(at, turns, said(grows=True)) for at in (0, 2 * STEP_NS, 90 * STEP_NS))
    _slide(world(Fifo, 40, *sessions, window_blocks=4, swap_disk_gib=9, prefix_cache=True), 1)


def _slide(of: World, steps_per_block: int) -> None:
    links = dict.fromkeys(CopyKind, (GIB // 16 * 1_000_000 // steps_per_block, 0))
    of, seen = replace(of, block_bytes=GIB // 16, links=links), list[Windows]()
    played(of, False, watch=partial(_watch_windows, of, seen))
    attack_world(of)
    assert seen[0].most > 4, "blocks leave the device"


def _watch_windows(of: World, seen: list[Windows], node: Node) -> None:
    seen.append(Windows(of, node))
    node.core.bus.add(seen[-1])


ATTACKS = (windows_slide, windows_slide_over_a_cache)


def sliding_attacks() -> list[Attack]:
    """All of them."""
    return [Attack(f"made: {attack.__name__}", attack) for attack in ATTACKS]
