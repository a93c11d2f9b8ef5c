"""Attacks by worlds that were made for one mechanism each, where seeded ones seldom reach it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from schedlab.config import Fusion, SchedulerConfig
from schedlab.device import CopyKind, Step, Ticket
from schedlab.events import Admitted, Preempted
from schedlab.memory.swap import GIB
from schedlab.policies.base import StaticPolicy
from schedlab.policies.fifo import Fifo
from schedlab.policies.priority import Priority
from schedlab.policies.view import View
from schedlab.request import FinishReason
from schedlab.sequence import Sequence
from schedlab.testing import Node, Session, Text, Turn, World, constant
from schedlab.testing.hostile import Shifts
from schedlab.testing.run import TURN_IDS
from tests.mutants.attack import Attack
from tests.mutants.moments import STEP_NS, ended
from tests.mutants.worlds import attack_world, played

BASE = SchedulerConfig(max_num_seqs=4, max_num_batched_tokens=16, block_size=4)


def world(policy: Callable[[SchedulerConfig], Any], num_blocks: int, *sessions: Session, **rules: Any) -> World:
    """Steps of 1 us, blocks of 4 tokens."""
    return World(replace(BASE, **rules), policy, constant(STEP_NS), num_blocks, sessions)


def one(prompt: int, output: int, at_step: int = 0, text: Text | None = None, priority: int = 0) -> Session:
    """A single request."""
    return Session(at_step * STEP_NS, (Turn(prompt, output, priority=priority),), text)


def said(**rest: Any) -> Text:
    """What another session of the family says too."""
    return Text(**{"family": 1, "shared_tokens": 1000, "hash_block_tokens": 4, **rest})


class Seen:
    """Observer: who was admitted with how many cached tokens, and who gave way."""

    def __init__(self) -> None:
        self.cached: dict[int, int] = {}
        self.came_ns: dict[int, int] = {}
        self.gave_way: list[int] = []
        self.times: list[int] = []

    def on_admitted(self, event: Admitted) -> None:
        self.came_ns[event.sequence.request_id // TURN_IDS] = event.now_ns
        self.cached[event.sequence.request_id // TURN_IDS] = event.sequence.num_cached_tokens

    def on_preempted(self, event: Preempted) -> None:
        self.gave_way.append(event.sequence.request_id // TURN_IDS)
        self.times.append(event.now_ns)


def seen(of: World) -> Seen:
    """What is seen of a run, stepped; leaping it is the same."""
    attack_world(of)
    found = Seen()
    ended(of, False, lambda node: node.core.bus.add(found))
    return found


def who_waits_takes_what_was_published_meanwhile() -> None:
    """One seat: the second looks up before the first has computed anything, and comes in when it has ended."""
    sessions = (one(17, 3, 0, said()), one(17, 3, 0, said()))
    found = seen(world(Fifo, 40, *sessions, max_num_seqs=1, max_num_batched_tokens=64, prefix_cache=True))
    assert found.cached == {0: 0, 1: 16}, found.cached


def shared_blocks_need_no_room() -> None:
    """A prompt of 40 tokens that another one holds needs one block more, and two are free."""
    sessions = (one(41, 20, 0, said()), one(41, 20, 5, said()))
    for blocks in range(13, 17):
        found = seen(world(Fifo, blocks, *sessions, prefix_cache=True, max_num_batched_tokens=64))
        assert found.cached == {0: 0, 1: 40}, found.cached
        assert found.came_ns[1] == 5 * STEP_NS, f"with {blocks} blocks the second comes in at {found.came_ns[1]} ns"


def salts_keep_outputs_apart() -> None:
    """Two conversations that say the same under different salts: what one has answered is no answer of the other."""
    sessions = (
        Session(at, (Turn(9, 8), Turn(3, 8)), said(grows=True, salt=salt)) for at, salt in ((0, "a"), (90_000, ""))
    )
    attack_world(world(Fifo, 60, *sessions, prefix_cache=True))


def the_policys_clock_holds_for_the_parked() -> None:
    """A gate opens and closes while preempted ones wait for it, and the rows go on."""
    sessions = [one(6 + index, 30, index) for index in range(4)]
    for blocks in (14, 17, 20):
        attack_world(world(partial(Shifts, period_ns=7 * STEP_NS, gate="admit"), blocks, *sessions))


def an_eviction_lets_the_next_in_line_in() -> None:
    """An urgent request waits for room; a row that outgrows the pool evicts another, and the next plan has the room."""
    sessions = (one(20, 30, 0, priority=1), one(20, 30, 1, priority=2), one(24, 6, 3, priority=0))
    for blocks in (12, 13, 14, 15):
        attack_world(world(Priority, blocks, *sessions, max_num_batched_tokens=64))


def the_least_important_gives_way() -> None:
    """Two seats, taken by classes 5 and 3; one of class 0 comes."""
    sessions = (one(4, 30, 0, priority=3), one(4, 30, 0, priority=5), one(4, 5, 9, priority=0))
    found = seen(world(partial(Priority, evict=True), 40, *sessions, max_num_seqs=2))
    assert found.gave_way == [1], found.gave_way


def who_holds_enough_is_enough() -> None:
    """A newcomer needs no more blocks than one of two holds: they never leave together."""
    for blocks in range(10, 14):
        for at_step in range(5, 10):
            sessions = (one(15, 30, 0, priority=5), one(15, 30, 0, priority=5), one(20, 5, at_step, priority=0))
            found = seen(world(partial(Priority, evict=True), blocks, *sessions))
            assert len(set(found.times)) == len(found.times), f"two leave at once: {found.gave_way}, {found.times}"


def who_could_not_make_way_is_asked_again() -> None:
    """Classes 0 and 5 run, and class 1 needs the room of both: the second goes when the first has ended."""
    sessions = (one(28, 8, 0, priority=0), one(28, 30, 0, priority=5), one(52, 4, 6, priority=1))
    found = seen(world(partial(Priority, evict=True), 20, *sessions, max_num_batched_tokens=64))
    assert found.gave_way == [1], found.gave_way


def rows_end_in_their_order() -> None:
    """One reaches its limit, one stops, one stops with the last token that it may have, all in one step."""
    turns = (Turn(4, 99, max_tokens=6), Turn(4, 6), Turn(4, 6, max_tokens=6))
    found = ended(world(Fifo, 40, *(Session(0, (turn,)) for turn in turns)), False)
    reasons = [(one // TURN_IDS, event.reason) for one, event in found.items()]
    assert reasons == [(0, FinishReason.LENGTH), (1, FinishReason.STOP), (2, FinishReason.STOP)], reasons


def prompts_go_whole_where_chunks_are_off() -> None:
    """Those that are computed again too, beside rows that take their share of the step."""
    sessions = [one(16, 25, 3 * index) for index in range(8)]
    of = world(Fifo, 22, *sessions, chunked_prefill=False, max_num_batched_tokens=42, max_model_len=42, max_num_seqs=6)
    attack_world(of)


class Closed(StaticPolicy):
    """Lets nobody in."""

    def admit(self, view: View, sequence: Sequence) -> bool:
        return False


def a_deadline_wakes_the_idle() -> None:
    """Nothing runs, nothing comes: the deadline of whoever waits still does."""
    attack_world(world(Closed, 9, Session(0, (Turn(4, 4, timeout_ns=5000),))))


def long_windows_do_not_come_back() -> None:
    """Rows with most of their blocks on disk are longer than the pool: one that must be computed again cannot."""
    for blocks in (7, 8, 9, 10):
        sliding = world(Fifo, blocks, one(6, 60), one(10, 60), window_blocks=4, swap_disk_gib=9)
        links = dict.fromkeys(CopyKind, (GIB // 64 * 1_000_000 // 12, 0))
        attack_world(replace(sliding, block_bytes=GIB // 64, links=links))


def what_can_run_is_accepted() -> None:
    """Prompts about as long as the model allows or as the pool holds, with and without an output to come."""
    for tokens in range(18, 23):
        turns = [Turn(tokens, 3, max_tokens) for max_tokens in (0, 1, 2)]
        for blocks, longest in ((5, 99), (9, 20)):
            attack_world(world(Fifo, blocks, *(Session(0, (turn,)) for turn in turns), max_model_len=longest))


def quiet_runs_are_leapt() -> None:
    """Rows alone, beside others that wait for a seat or for room, and with windows: no more steps than decisions."""
    full = [one(4, 60), one(4, 40), one(4, 20)]
    for of, most in (
        (world(Fifo, 60, *full), 4),
        (world(Fifo, 60, *full, max_num_seqs=2), 4),
        (world(Fifo, 21, *full), 9),
        (world(Fifo, 60, *full, prefix_cache=True), 4),
    ):
        counted = Launches()
        played(of, True, watch=counted.watch)
        assert counted.count <= most, f"{counted.count} steps, {most} are enough"


class Launches:
    """How many steps a device is asked for."""

    def __init__(self) -> None:
        self.count = 0

    def watch(self, node: Node) -> None:
        inner = node.core.device.launch

        def launch(step: Step) -> Ticket:
            self.count += 1
            return inner(step)

        setattr(node.core.device, "launch", launch)  # noqa: B010 - the scheduler calls it by this name


def lanes_of_their_own_have_the_whole_step() -> None:
    """Long prompts beside rows: these cost a step of its own no token, and one that they share one each."""
    sessions = [one(4, 40), one(4, 40), one(50, 5, 3), one(60, 5, 4)]
    for fusion in Fusion:
        attack_world(world(Fifo, 60, *sessions, fusion=fusion))


def what_is_reserved_is_no_room() -> None:
    """An important one comes while a prompt that is less important, and has reserved its blocks, is computed."""
    for blocks in range(17, 27):
        sessions = (one(9, 30, 0, priority=5), one(60, 5, 2, priority=1), one(24, 5, 4, priority=0))
        attack_world(world(partial(Priority, evict=True), blocks, *sessions, max_prefill_tokens=6))


ATTACKS = (
    who_waits_takes_what_was_published_meanwhile,
    shared_blocks_need_no_room,
    salts_keep_outputs_apart,
    the_policys_clock_holds_for_the_parked,
    an_eviction_lets_the_next_in_line_in,
    the_least_important_gives_way,
    who_holds_enough_is_enough,
    who_could_not_make_way_is_asked_again,
    rows_end_in_their_order,
    prompts_go_whole_where_chunks_are_off,
    a_deadline_wakes_the_idle,
    long_windows_do_not_come_back,
    what_can_run_is_accepted,
    quiet_runs_are_leapt,
    lanes_of_their_own_have_the_whole_step,
    what_is_reserved_is_no_room,
)


def made_attacks() -> list[Attack]:
    """All of them."""
    return [Attack(f"made: {attack.__name__}", attack) for attack in ATTACKS]
