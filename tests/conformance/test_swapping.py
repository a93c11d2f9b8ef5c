"""Images of swapped-out sequences: E.49, H.80, H.82 and S32 where time and failures come in.

Two requests of 64 + 40 tokens on 10 blocks: B, the later one, holds 5 blocks when A needs a sixth, and is swapped out.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from backends.sim.clock import SimClock
from backends.sim.links import DEFAULT_LINKS, Links, LinkSpec
from schedlab.device import CopyKind, CopyOp
from schedlab.events import Preempted, Restored, Restoring, SwappedOut
from tests.conformance import harness
from tests.conformance.made import ask, made_case
from tests.conformance.recorder import Recorder
from tests.conformance.scenario import NS_PER_MS, Case, Dropped

DISK = {"preemption": "disk", "swap_disk_gib": 1}
HOST = {"preemption": "host", "swap_host_gib": 1}


def _pair(config: dict[str, Any], copy_ms: float, a_outputs: int = 40, cancel_ms: int | None = None) -> Case:
    asks = (ask(0, 64, a_outputs, name="A"), ask(1, 64, 40, name="B"))
    cancels = () if cancel_ms is None else (Dropped(1, cancel_ms * NS_PER_MS),)
    return made_case(asks, {"blocks": 10, "block_mib": 64, "copy_ms": copy_ms}, config, cancels)


class Moves:
    """When B left, when it began to come back, and when it was back; and why it was computed again, if it was."""

    def __init__(self) -> None:
        self.at_ms: dict[str, float] = {}
        self.reasons: list[str] = []

    def on_swapped_out(self, event: SwappedOut) -> None:
        self.at_ms["out"] = event.now_ns / NS_PER_MS

    def on_restoring(self, event: Restoring) -> None:
        self.at_ms["restoring"] = event.now_ns / NS_PER_MS

    def on_restored(self, event: Restored) -> None:
        self.at_ms["back"] = event.now_ns / NS_PER_MS

    def on_preempted(self, event: Preempted) -> None:
        self.reasons.append(event.reason)


@pytest.mark.parametrize("leap", [True, False])
def test_080_an_image_is_not_read_before_it_is_written(leap: bool) -> None:
    """Each of four copies takes 5 ms. A waits for the first, as it needs a block that B left, and ends 8 ms after B has
    left, with B's image half on disk; B is back when all four have ended."""
    moves = Moves()
    run = harness.run(_pair(DISK, copy_ms=1, a_outputs=20), leap=leap, observers=[moves])
    assert run.swapped == ["B:disk"] and run.restored == ["B"]
    assert moves.at_ms["restoring"] - moves.at_ms["out"] == 8
    assert moves.at_ms["back"] - moves.at_ms["out"] == 20
    assert run.lived["B"].recomputed == 0 and len(run.lived["B"].token_ns) == 40


@pytest.mark.parametrize("leap", [True, False])
def test_a_block_is_not_filled_while_the_image_of_its_last_owner_is_still_read_from_it(leap: bool) -> None:
    """Two urgent ones take A's seat at 30 ms and are gone at 31, while A's 6 blocks are saved until 42 ms. B, which has
    been out since 17 ms, gets one of these 6 besides the 4 others, and is filled in from 42 to 52 ms.
    """
    moves = Moves()
    urgent = tuple(ask(2 + i, 16, 1, 30 * NS_PER_MS, f"U{i}", priority=0) for i in range(2))
    asks = (ask(0, 64, 60, name="A", priority=5), ask(1, 64, 40, name="B", priority=3), *urgent)
    setup = {"blocks": 10, "block_mib": 64, "copy_ms": 2, "policy": "priority", "parameters": {"evict": True}}
    run = harness.run(
        made_case(asks, setup, {**HOST, "max_num_seqs": 2, "victim": "fewest_outputs"}), leap=leap, observers=[moves]
    )
    assert run.swapped == ["B:host", "A:host"]
    assert run.lived["U1"].ended_ns == 31 * NS_PER_MS
    assert run.at_ms(31).restoring == ["B"]
    assert run.restored[0] == "B" and run.lived["B"].token_ns[17] == 53 * NS_PER_MS
    assert len(run.lived["A"].token_ns) == 60


def test_080_the_tier_is_taken_by_whole_images_up_to_its_budget_and_no_further() -> None:
    """Images of 5 blocks of 64 MiB: three of them fit in 1 GiB, whatever comes; the budget is a law of every tick."""
    asks = tuple(ask(index, 64, 60, name=f"R{index}") for index in range(12))
    setup = {"blocks": 48, "block_mib": 64, "copy_ms": 4}
    run = harness.run(made_case(asks, setup, HOST), leap=True)
    assert Counter(tier for _, tier in (one.split(":") for one in run.swapped)).keys() == {"host"}
    assert run.preempted, "those for whom the tier has no room are computed again"
    assert {len(one.token_ns) for one in run.lived.values()} == {60}


@pytest.mark.parametrize("leap", [True, False])
@pytest.mark.parametrize(("cancel_ms", "ended_ms"), [(18, 28), (30, 30), (40, 40), (55, 55), (65, 65)])
def test_049_a_copy_may_outlive_its_request(cancel_ms: int, ended_ms: int, leap: bool) -> None:
    """B goes while it is saved (17..27 ms), written (..37), on disk, read (50..60) or filled in (..70).

    Its room is given back at once, and nobody waits for its copies but A for the first one: its step ends at 28 ms.
    """
    moves = Moves()
    run = harness.run(_pair(DISK, copy_ms=2, cancel_ms=cancel_ms), leap=leap, observers=[moves])
    assert moves.at_ms["out"] == 17 and "back" not in moves.at_ms
    assert ("restoring" in moves.at_ms) == (cancel_ms > 50)
    assert str(run.lived["B"].reason) == "cancelled" and run.lived["B"].ended_ns == ended_ms * NS_PER_MS
    assert len(run.lived["A"].token_ns) == 40 and run.lived["A"].ended_ns == 50 * NS_PER_MS


@pytest.mark.parametrize(("preemption", "swapped"), [("host", ["D:host"]), ("recompute", [])])
def test_a_victim_that_has_just_got_a_block_gives_it_back_before_it_is_saved(
    preemption: str, swapped: list[str]
) -> None:
    """In step 5 D gets a third block for its ninth token; then P lacks its fifth, and D goes with the two it filled."""
    asks = (ask(0, 5, 12, name="D", priority=5), ask(1, 20, 1, NS_PER_MS, "P"))
    setup = {"blocks": 7, "block_mib": 64, "copy_ms": 0.25}
    config = {"block_size": 4, "max_num_batched_tokens": 6, "max_num_seqs": 4, "victim": "least_priority"}
    space = {"swap_host_gib": 1} if preemption == "host" else {}
    sizes = Sizes()
    case = made_case(asks, setup, {**config, "preemption": preemption, **space})
    run = harness.run(case, leap=True, observers=[sizes])
    assert run.swapped == swapped and run.preempted == ([] if swapped else ["D"])
    assert sizes.blocks == [2]
    assert run.steps[4].tokens == {"P": 5}
    assert {name: len(one.token_ns) for name, one in run.lived.items()} == {"D": 12, "P": 1}


class Sizes:
    """Blocks that each victim gave up."""

    def __init__(self) -> None:
        self.blocks: list[int] = []

    def on_swapped_out(self, event: SwappedOut) -> None:
        self.blocks.append(event.num_blocks)

    def on_preempted(self, event: Preempted) -> None:
        self.blocks.append(event.freed_blocks)


class FailingLinks(Links):
    """Every copy of one kind fails at its end."""

    failing = CopyKind.DEVICE_TO_HOST

    def error_of(self, op: CopyOp, end_quanta: int) -> str:
        return "the link is broken" if op.kind is self.failing else ""


def _run_with_broken(monkeypatch: pytest.MonkeyPatch, kind: CopyKind, config: dict[str, Any]) -> tuple[Recorder, Moves]:
    def links(case: Case, clock: SimClock, block_bytes: int) -> Links:
        found = FailingLinks(clock, dict.fromkeys(DEFAULT_LINKS, LinkSpec(block_bytes * 1000, 0)))
        found.failing = kind
        return found

    monkeypatch.setattr(harness, "_links", links)
    moves = Moves()
    return harness.run(_pair(config, copy_ms=1), leap=True, observers=[moves]), moves


@pytest.mark.parametrize(
    ("kind", "config", "recomputed", "reasons"),
    [
        (CopyKind.DEVICE_TO_HOST, HOST, 80, ["image lost"]),
        (CopyKind.HOST_TO_DEVICE, HOST, 80, ["restore failed"]),
        (CopyKind.DEVICE_TO_HOST, DISK, 80, ["image lost"]),
        (CopyKind.HOST_TO_DISK, DISK, 80, ["image lost"]),
        (CopyKind.HOST_TO_DISK, {**DISK, "swap_host_gib": 1}, 0, []),
        (CopyKind.DISK_TO_HOST, DISK, 80, ["restore failed"]),
        (CopyKind.HOST_TO_DEVICE, DISK, 80, ["restore failed"]),
    ],
)
def test_082_an_image_that_fails_is_gone_and_its_owner_goes_on_without_it(
    monkeypatch: pytest.MonkeyPatch, kind: CopyKind, config: dict[str, Any], recomputed: int, reasons: list[str]
) -> None:
    """Computed again, or kept on the host when only the disk refused it; nobody else notices."""
    run, moves = _run_with_broken(monkeypatch, kind, config)
    assert run.swapped == [f"B:{config['preemption']}"]
    assert moves.reasons == reasons
    assert run.restored == ([] if recomputed else ["B"])
    assert run.lived["B"].recomputed == recomputed
    assert {name: len(one.token_ns) for name, one in run.lived.items()} == {"A": 40, "B": 40}
