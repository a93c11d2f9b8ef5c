"""The test machine reaches every move and decision, at a speed, and its examples are the same in every run."""

from __future__ import annotations

import time
from functools import partial

import pytest
from hypothesis import seed
from hypothesis.stateful import run_state_machine_as_test

from schedlab.config import Fusion, SchedulerConfig
from schedlab.device import CopyKind
from schedlab.policies.fifo import Fifo
from schedlab.policies.priority import Priority
from schedlab.policies.slai import Slai
from schedlab.testing import Script, Session, Text, Turn, World, constant, play
from schedlab.testing.actions import Advance, Submit
from schedlab.testing.check import check_policy, settings_for
from schedlab.testing.machine import machine_for
from schedlab.testing.tally import Tally
from tests.property.effort import FACTOR

# Together these reach everything: priority evicts, fifo swaps out at admission.
POLICIES = (Fifo, partial(Priority, evict=True), Slai)
EXAMPLES = 150


@pytest.fixture(scope="module")
def tally() -> Tally:
    """After the suite's examples."""
    tally = Tally()
    for number, policy in enumerate(POLICIES):
        machine = seed(number)(machine_for(policy, tally))
        run_state_machine_as_test(machine, settings=settings_for(EXAMPLES * FACTOR))
    return tally


def test_every_move_of_the_life_cycle_and_every_decision_is_reached(tally: Tally) -> None:
    assert not tally.coverage.missing
    assert tally.coverage.num_states == 7


def test_the_same_seed_gives_the_same_examples() -> None:
    first, second = (check_policy(Fifo, examples=30, seed_of=7) for _ in range(2))
    other = check_policy(Fifo, examples=30, seed_of=8)
    assert first.error is None
    assert first.tally.coverage.decisions == second.tally.coverage.decisions != other.tally.coverage.decisions
    assert first.tally.num_rules == second.tally.num_rules


def test_a_check_by_time_stops_in_time() -> None:
    started = time.monotonic()
    report = check_policy(Fifo, examples=None, time_s=1.0)
    assert report.error is None and report.tally.num_examples > 1
    assert time.monotonic() - started < 20


def test_what_a_window_hides_may_be_the_parent_of_idle_blocks() -> None:
    """A text that another has left idle behind what a window hides."""
    config = SchedulerConfig(
        max_num_seqs=1,
        max_num_batched_tokens=1,
        fusion=Fusion.NONE,
        block_size=1,
        max_model_len=200,
        swap_disk_gib=1,
        window_blocks=1,
        prefix_cache=True,
    )
    at_once = dict.fromkeys(CopyKind, (10**18, 0))
    world = World(config, Fifo, constant(1000), 4, block_bytes=1 << 20, links=at_once)
    text = Text(0, 20, 1, grows=True)
    first, second = (Session(0, (turn, turn), text) for turn in (Turn(2, 1, think_ns=2000), Turn(1, 4, think_ns=1000)))
    play(Script(world, (Submit(first), Submit(second), Advance(20_000)), leap=False))
