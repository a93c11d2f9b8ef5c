"""Two schedulers on one simulated clock, each other's source of requests: an end here is an arrival there, at once."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from backends.sim.device import SimDevice
from backends.sim.testbed import SimTestbed
from schedlab.config import SchedulerConfig
from schedlab.errors import Stalled
from schedlab.events import Finished, Refused
from schedlab.policies.fifo import Fifo
from schedlab.testing import Node, Session, Turn, World, constant
from schedlab.testing.run import TURN_IDS
from schedlab.testing.strategies import configs, costs, policies, sessions
from tests.property.effort import examples
from tests.property.world import Recorded, Recorder


@dataclass(frozen=True)
class Pair:
    """Two worlds without arrivals of their own, and chains whose turns alternate between them, odd chains from B."""

    worlds: tuple[World, World]
    chains: tuple[Session, ...]


class Relay:
    """Observes both nodes: when a turn ends on one, the next is delivered to the other at the same instant."""

    def __init__(self, nodes: list[Node], chains: tuple[Session, ...]) -> None:
        self._nodes = nodes
        self._chains = chains
        self._left = sum(len(chain.turns) for chain in chains)
        for node in nodes:
            node.core.bus.add(self)
        for index, chain in enumerate(chains):
            nodes[0].testbed.call_at(chain.arrival_ns, partial(self._submit, index, 0))

    def on_finished(self, event: Finished) -> None:
        self._ended(event.sequence.request_id)

    def on_refused(self, event: Refused) -> None:
        self._ended(event.sequence.request_id)

    def _ended(self, request_id: int) -> None:
        index, turn = divmod(request_id, TURN_IDS)
        turns = self._chains[index].turns
        if turn + 1 == len(turns):
            return
        think_ns, testbed = turns[turn + 1].think_ns, self._nodes[0].testbed
        if think_ns:
            testbed.call_at(testbed.now_ns() + think_ns, partial(self._submit, index, turn + 1))
        else:
            self._submit(index, turn + 1)

    def _submit(self, index: int, turn: int) -> None:
        self._nodes[(index + turn) % 2].submit(index * TURN_IDS + turn, self._chains[index])
        self._left -= 1
        if not self._left:
            for node in self._nodes:
                node.close()


def run_pair(pair: Pair, leaps: tuple[bool, bool], first: int) -> list[Recorded]:
    """Run both to the end; node `first` is constructed first."""
    testbed = SimTestbed(SimDevice)
    with tempfile.TemporaryDirectory() as folder:
        nodes: dict[int, Node] = {}
        recorders: dict[int, Recorder] = {}
        for index in (first, 1 - first):
            nodes[index] = Node(testbed, pair.worlds[index], leap=leaps[index])
            recorders[index] = Recorder(nodes[index], Path(folder) / f"{index}.jsonl")
            nodes[index].start()
        both = [nodes[0], nodes[1]]
        Relay(both, pair.chains)
        try:
            testbed.run()
        except Stalled as stalled:
            return [recorders[index].recorded(f"stalled: {stalled}") for index in (0, 1)]
        ends = ["done" if node.bench.is_done else "waits for ever" for node in both]
        return [recorders[index].recorded(ends[index]) for index in (0, 1)]


@st.composite
def pairs(draw: st.DrawFn) -> Pair:
    """Two different schedulers, chains of up to six hops, most of them without a pause."""
    worlds = []
    even = constant(1000), 1000
    _, unit_ns = cost = draw(st.one_of(st.just(even), costs()))
    for _ in range(2):
        config = draw(configs())
        cost = cost if draw(st.booleans()) else draw(st.one_of(st.just((constant(500), 1000)), costs()))
        worlds.append(World(config, draw(policies(config, unit_ns)), cost[0], draw(st.integers(1, 40)), ()))
    chains = tuple(Session(chain.arrival_ns, chain.turns + chain.turns) for chain in draw(sessions(unit_ns, most=8)))
    return Pair((worlds[0], worlds[1]), chains)


@given(pairs())
@examples(60)
def test_each_core_sees_the_same_whatever_leaps_and_whoever_was_made_first(pair: Pair) -> None:
    expected = run_pair(pair, (False, False), 0)
    for leap_a, leap_b, first in product((True, False), (True, False), (0, 1)):
        found = run_pair(pair, (leap_a, leap_b), first)
        for node in (0, 1):
            assert found[node].log.decode().splitlines() == expected[node].log.decode().splitlines()
            assert found[node] == expected[node], (leap_a, leap_b, first, node)


def test_a_timeout_here_is_an_arrival_there_at_the_same_instant_with_and_without_leaps() -> None:
    config = SchedulerConfig(max_num_seqs=4, max_num_batched_tokens=16, block_size=4)
    worlds = tuple(World(config, Fifo, constant(step_ns), 40, ()) for step_ns in (500, 1000))
    chains = (
        Session(0, (Turn(1, 20, timeout_ns=3000), Turn(1, 3))),
        Session(0, (Turn(1, 20),)),
    )
    pair = Pair((worlds[0], worlds[1]), chains)
    stepped, leapt = run_pair(pair, (False, False), 0), run_pair(pair, (True, True), 0)
    assert stepped[1].log.splitlines() == leapt[1].log.splitlines()
