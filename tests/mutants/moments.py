"""Attacks at chosen moments: a client leaves, a deadline comes, or all is shut down, in each state of a request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

from schedlab.config import PreemptionMode, SchedulerConfig
from schedlab.core.plan import Plan
from schedlab.device import CopyKind
from schedlab.events import Finished
from schedlab.fault_plan import FaultPlan
from schedlab.memory.swap import GIB
from schedlab.policies.fifo import Fifo
from schedlab.request import FinishReason
from schedlab.sequence import State
from schedlab.testing import Node, Session, Text, Turn, World, constant
from schedlab.testing.run import TURN_IDS
from tests.mutants.attack import Attack
from tests.mutants.worlds import played

STEP_NS = 1000
STATES = tuple(state for state in State if state is not State.FINISHED)


class Moment(NamedTuple):
    """A request is in a state between two plans."""

    now_ns: int
    request_id: int


class Ends:
    """Observer: when and how each request ends."""

    def __init__(self) -> None:
        self.found: dict[int, Finished] = {}

    def on_finished(self, event: Finished) -> None:
        self.found[event.sequence.request_id] = event


def crowd(mode: PreemptionMode, faults: FaultPlan | None = None, *, cached: bool = False) -> World:
    """Ten requests that outgrow the pool, on links on which a block takes three steps.

    Args:
        cached: with a prefix cache. They say different things: what one leaves there nobody else finds.
    """
    room: dict[str, Any] = {PreemptionMode.HOST: {"swap_host_gib": 4}, PreemptionMode.DISK: {"swap_disk_gib": 4}}.get(
        mode, {}
    )
    room["prefix_cache"] = cached
    config = SchedulerConfig(max_num_seqs=4, max_num_batched_tokens=12, block_size=4, preemption=mode, **room)
    block_bytes = GIB // 64
    links = dict.fromkeys(CopyKind, (block_bytes * 1_000_000_000 // (3 * STEP_NS), 0))
    texts = [Text(index, 1000, 4) if cached else None for index in range(10)]
    sessions = tuple(Session(index * 1500, (Turn(9 + index, 25),), texts[index]) for index in range(10))
    return World(config, Fifo, constant(STEP_NS), 22, sessions, block_bytes, links, faults=faults or FaultPlan())


def ended(world: World, leap: bool, watch: Callable[[Node], None] | None = None) -> dict[int, Finished]:
    """How everybody ends in a run that must come to its end."""
    ends = Ends()
    end = played(world, leap, ends, watch=watch).end
    assert end == "done", end
    return ends.found


@cache
def moments(mode: PreemptionMode, cached: bool) -> dict[State, list[Moment]]:
    """Everybody's state between any two plans of the stepped run."""
    found: dict[State, list[Moment]] = {state: [] for state in STATES}

    def watch(node: Node) -> None:
        def note() -> None:
            for sequence in node.core.sequences.values():
                found[sequence.state].append(Moment(node.testbed.now_ns(), sequence.request_id))

        _after(node.core, "end_tick", note)

    ended(crowd(mode, cached=cached), False, watch)
    return found


def _after(owner: Any, name: str, act: Callable[[], None]) -> None:
    inner = getattr(owner, name)

    def call() -> Any:
        result = inner()
        act()
        return result

    setattr(owner, name, call)


def leaves(world: World, state: State, moment: Moment, reason: FinishReason, leap: bool) -> None:
    """Whoever is to end just behind the moment ends with the first plan that follows."""
    now_ns, request_id = moment
    index, due_ns = request_id // TURN_IDS, now_ns + 1
    (session, rest_ns) = world.sessions[index], due_ns - world.sessions[index].arrival_ns
    what = "cancel_ns" if reason is FinishReason.CANCELLED else "timeout_ns"
    turn = session.turns[0]._replace(**{what: rest_ns})
    sessions = (*world.sessions[:index], session._replace(turns=(turn,)), *world.sessions[index + 1 :])
    plans: list[int] = []
    end = ended(replace(world, sessions=sessions), leap, partial(_note_plans, plans))[request_id]
    assert end.reason is reason, f"{state} at {now_ns} ns: ends with {end.reason}, not with {reason}"
    first_ns = next(plan_ns for plan_ns in plans if plan_ns >= due_ns)
    assert end.now_ns == first_ns, f"{state}: due at {due_ns} ns, planned at {first_ns}, ends at {end.now_ns}"


def _note_plans(plans: list[int], node: Node) -> None:
    _after(node.core, "plan", lambda: plans.append(node.testbed.now_ns()))


def shut_down(mode: PreemptionMode, after_plans: int) -> None:
    """Whoever lives when a shutdown is planned ends with an error that says so."""

    def watch(node: Node) -> None:
        plan, left = node.core.plan, after_plans

        def cut() -> Plan:
            nonlocal left
            left -= 1
            planned = plan()
            if left:
                return planned
            alive.extend(node.core.sequences)
            return Plan((), shutdown=True)

        setattr(node.core, "plan", cut)  # noqa: B010 - the driver calls it by this name

    alive: list[int] = []
    ends = ended(crowd(mode), True, watch)
    assert alive, "somebody lives"
    for request_id in alive:
        end = ends[request_id]
        assert end.reason is FinishReason.ERROR, f"{request_id} is shut down and ends with {end.reason}"
        assert "shut down" in end.sequence.error, end.sequence.error


def moment_attacks() -> list[Attack]:
    """Each state of each way to give up memory, near the middle of all that was seen in it; and shutdowns."""
    attacks = []
    for mode in (PreemptionMode.RECOMPUTE, PreemptionMode.HOST, PreemptionMode.DISK):
        attacks += [*_leave(mode, cached=False), *_leave(mode, cached=True)]
        for plans in (7, 20, 33):
            attacks.append(Attack(f"moment: shutdown after {plans} plans, {mode}", partial(shut_down, mode, plans)))
    return attacks


def _leave(mode: PreemptionMode, *, cached: bool) -> Iterator[Attack]:
    for state, seen in moments(mode, cached).items():
        for reason, leap in ((FinishReason.CANCELLED, True), (FinishReason.TIMEOUT, False)) if seen else ():
            run = partial(leaves, crowd(mode, cached=cached), state, seen[len(seen) // 2], reason, leap)
            yield Attack(f"moment: {reason} while {state}, {mode}{', cached' * cached}", run)
