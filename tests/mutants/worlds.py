"""Attacks by whole runs: seeded worlds, stepped and leapt, under every law and the shadow of what is in the blocks.

In the run that leaps each tick receives twice, the second time a message that says nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from backends.sim.shadow_kv import ShadowDevice
from schedlab.core.scheduler import Scheduler
from schedlab.events import Admitted, Finished, StepDone
from schedlab.inbox import Cancel, Delivery
from schedlab.request import FinishReason
from schedlab.sequence import State
from schedlab.testing import Ending, Node, World, alone
from schedlab.testing.hostile import Moody
from schedlab.testing.run import CANCEL
from schedlab.testing.strategies import hybrid_worlds, pressed_worlds, worlds
from tests.mutants.attack import Attack, NotAlike, NotLive
from tests.mutants.demands import demand
from tests.mutants.doubts import doubt
from tests.mutants.foresight import foresee
from tests.mutants.recounts import recount
from tests.mutants.seeded import drawn
from tests.property import hybrid
from tests.property.world import Recorded
from tests.property.world import run as record

# The longest of the seeded runs takes a tenth of these.
MOST_PLANS = 4000
# No request has this id.
NOBODY = -1


class Watcher:
    """Observer: what a step says of the queues is so, nobody comes in with a plan that took blocks from rows, and whom
    nobody cuts short ends as it would alone."""

    def __init__(self, node: Node) -> None:
        self._core = node.core
        self._world = node.world

    def on_finished(self, event: Finished) -> None:
        request_id, found = event.sequence.request_id, Ending(event.reason, event.sequence.num_outputs)
        if event.reason in (FinishReason.STOP, FinishReason.LENGTH):
            expected = alone(self._world, request_id)
            assert found == expected, f"request {request_id} ends as {found}, alone as {expected}"

    def on_admitted(self, event: Admitted) -> None:
        assert not self._core.evicted, f"{event.sequence} comes in with a plan in which rows had to give way"

    def on_step_done(self, event: StepDone) -> None:
        states = Counter(sequence.state for sequence in self._core.sequences.values())
        found = event.num_waiting, event.num_parked
        expected = states[State.PENDING], states[State.PREEMPTED] + states[State.SWAPPED]
        assert found == expected, f"a step announces {found} waiting and parked, there are {expected}"


def world_attacks(count: int, seed: int) -> list[Attack]:
    """Each world is the same leapt and stepped, and everybody in it ends."""
    return _attacks("world", drawn(worlds(), count, seed), attack_world)


def pressed_attacks(count: int, seed: int) -> list[Attack]:
    """The same in pools that are too small, with faults, states, resets and cancels."""
    return _attacks("pressed world", drawn(pressed_worlds(), count, seed), attack_world)


def hybrid_attacks(count: int, seed: int) -> list[Attack]:
    """The same where sequences carry a state, with a look at each snapshot that is restored."""
    return _attacks("hybrid world", drawn(hybrid_worlds(), count, seed), attack_hybrid)


def _attacks(kind: str, examples: list[World], attack: Callable[[World], None]) -> list[Attack]:
    return [Attack(f"{kind} {index}", partial(attack, one)) for index, one in enumerate(examples)]


def attack_world(world: World, *observers: object) -> None:
    """Under the shadow, stepped and leapt."""
    _alike(world, lambda leap: played(world, leap, *observers))


def played(world: World, leap: bool, *observers: object, watch: Callable[[Node], None] | None = None) -> Recorded:
    """One run to its end under the shadow; a stall is an outcome."""
    return record(world, leap=leap, device_class=ShadowDevice, watch=partial(_watch, observers, watch, leap))


def attack_hybrid(world: World, *observers: object) -> None:
    """The same, and the same snapshots are left."""

    def ran(leap: bool) -> Recorded:
        found = hybrid.run(world, leap=leap, watch=partial(_watch, observers, None, leap))
        counts = found.counts
        assert counts["used_slots"] == len(found.left) <= counts["slots"], "snapshots are counted"
        assert counts["slots"] or not found.restored_tokens, "nothing is restored without slots"
        seen.append((found.counts, found.left, found.restored_tokens))
        return found.outcome

    seen: list[Any] = []
    _alike(world, ran)
    if seen[0] != seen[1]:
        raise NotAlike(f"snapshots: stepped {seen[0]}, leapt {seen[1]}")


def _watch(observers: tuple[object, ...], watch: Callable[[Node], None] | None, leap: bool, node: Node) -> None:
    _bound(node.core)
    if leap:
        _settle_twice(node)
    if not leap:
        doubt(node.core)
        foresee(node.core)
        recount(node.core)
        demand(node.core)
    for observer in (Watcher(node), *observers):
        node.core.bus.add(observer)
    if watch is not None:
        watch(node)


def _alike(world: World, ran: Callable[[bool], Recorded]) -> None:
    stepped, leapt = ran(False), ran(True)
    lines = zip(leapt.log.splitlines(), stepped.log.splitlines(), strict=False)
    for number, (ours, theirs) in enumerate(lines, 1):
        if ours != theirs:
            raise NotAlike(f"line {number}: leapt {ours!r}, stepped {theirs!r}")
    if leapt != stepped:
        raise NotAlike(f"leapt {leapt.end} {leapt.counts}, stepped {stepped.end} {stepped.counts}")
    accepted, ended, *_ = stepped.counts
    if (stepped.end, ended) != ("done", accepted) and not isinstance(world.policy(world.config), Moody):
        raise NotLive(f"{stepped.end}: {ended} of {accepted} requests have ended")


def _settle_twice(node: Node) -> None:
    """Between what each tick receives and its plan comes a message that says nothing: it must decide nothing."""
    begin_tick = node.core.begin_tick

    def begin() -> None:
        begin_tick()
        node.core.inbox.deliver(Delivery(node.testbed.now_ns(), CANCEL, NOBODY, Cancel(NOBODY)))

    setattr(node.core, "begin_tick", begin)  # noqa: B010 - the driver calls it by this name


def _bound(core: Scheduler) -> None:
    """A run that needs more plans than any of these should never ends."""
    plan, left = core.plan, MOST_PLANS

    def bounded() -> object:
        nonlocal left
        left -= 1
        if not left:
            raise NotLive(f"{MOST_PLANS} plans and no end: {core.why_stalled() if core.sequences else 'nobody lives'}")
        return plan()

    setattr(core, "plan", bounded)  # noqa: B010 - the driver calls it by this name
